"""Times scikit-learn, ONNX Runtime and torch on one text at a time.

Reads one JSON object from standard input and writes one to standard output:
in  {"train": [{"text", "label"}], "text", "max_features", "calls", "model": folder|null,
     "onnx": file|null}
out {"python", "sklearn": {"version", "us_p50", "score"}|null, "torch": {...}|null, "onnxruntime": {...}|null}
Whatever cannot be imported or run here is null. One thread throughout.
"""

import json
import os
import platform
import statistics
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ[name] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"

task = json.load(sys.stdin)
# Libraries print what they like; the answer alone goes to the real standard output.
answer_to = os.dup(1)
os.dup2(2, 1)


def median_us(call):
    for _ in range(5):
        call()
    times = []
    for _ in range(task["calls"]):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)


def sklearn():
    import sklearn as package
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    vectorizer = TfidfVectorizer(
        analyzer="char_wb",
        ngram_range=(1, 4),
        max_features=task["max_features"],
        sublinear_tf=True,
        strip_accents="unicode",
    )
    rows = vectorizer.fit_transform([row["text"] for row in task["train"]])
    model = LogisticRegression(C=1.0, class_weight="balanced", max_iter=1000, solver="lbfgs")
    model.fit(rows, [int(row["label"]) for row in task["train"]])
    text = task["text"]
    call = lambda: model.predict_proba(vectorizer.transform([text]))[0, 1]
    return {"version": package.__version__, "us_p50": median_us(call), "score": float(call())}


def tokens():
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(os.path.join(task["model"], "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    return lambda text: tokenizer.encode(text).ids


def torch():
    import torch as package
    from transformers import AutoModel

    package.set_num_threads(1)
    encode = tokens()
    model = AutoModel.from_pretrained(task["model"]).eval()

    def call():
        with package.inference_mode():
            ids = package.tensor([encode(task["text"])])
            found = model(input_ids=ids, attention_mask=package.ones_like(ids)).last_hidden_state
            mean = found.mean(dim=1)
            return package.nn.functional.normalize(mean, dim=1)[0]

    return {"version": package.__version__, "us_p50": median_us(call), "score": float(call()[0])}


def exported(path):
    """Writes the embedding of `torch()` to `path` as ONNX, in 32-bit floats."""
    import torch as package
    from transformers import AutoModel

    try:
        import onnx  # noqa: F401
    except ImportError:
        # The exporter asks for this package only to add functions that this model has none of.
        from torch.onnx._internal.torchscript_exporter import onnx_proto_utils

        onnx_proto_utils._add_onnxscript_fn = lambda model, _: model

    class Embedding(package.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = AutoModel.from_pretrained(task["model"], attn_implementation="eager")

        def forward(self, input_ids, attention_mask):
            found = self.model(input_ids=input_ids, attention_mask=attention_mask)
            return package.nn.functional.normalize(found.last_hidden_state.mean(dim=1), dim=1)

    ids = package.ones(1, 8, dtype=package.long)
    names = ["input_ids", "attention_mask"]
    package.onnx.export(
        Embedding().eval(),
        (ids, package.ones_like(ids)),
        path,
        input_names=names,
        dynamic_axes={name: {1: "tokens"} for name in names},
        dynamo=False,
    )


def onnxruntime():
    if task.get("onnx") is not None:
        return session_time(task["onnx"])
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "embedding.onnx")
        exported(path)
        return session_time(path)


def session_time(path):
    import numpy as np
    import onnxruntime as package

    options = package.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    session = package.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    encode = tokens()
    wanted = {one.name for one in session.get_inputs()}

    def call():
        ids = np.array([encode(task["text"])], dtype=np.int64)
        given = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        return session.run(None, {name: given[name] for name in wanted})[0]

    score = float(np.asarray(call()).reshape(-1)[0])
    return {"version": package.__version__, "us_p50": median_us(call), "score": score}


def attempt(measure, *needed):
    if any(task.get(name) is None for name in needed):
        return None
    try:
        return measure()
    except Exception as error:
        print(f"{measure.__name__}: {error!r}", file=sys.stderr)
        return None


found = {
    "python": platform.python_version(),
    "sklearn": attempt(sklearn),
    "torch": attempt(torch, "model"),
    "onnxruntime": attempt(onnxruntime, "model"),
}
os.write(answer_to, json.dumps(found).encode())
