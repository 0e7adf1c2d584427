//! What the same work takes in Python, when it is installed: scikit-learn, torch and ONNX Runtime.
//!
//! A comparison and never a requirement: whatever is not there, fails, says too much or takes too long is no
//! figure. The interpreter is `python3` or the one that the environment variable `CUSTODY_PYTHON` names. The
//! script is compiled in and passed as an argument; it reads only what it is given and the model files named.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde::Deserialize;

use crate::report::{Figure, Rival};
use crate::sets::Labelled;

const SCRIPT: &str = include_str!("python.py");

/// The longest answer that is read, in bytes.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// What Python is asked.
#[derive(Debug, Clone, Copy)]
pub struct InterpreterQuestion<'a> {
    /// What scikit-learn's classifier is trained on, with D2's options.
    pub train: &'a [Labelled],
    /// As in the papers: 15,000, for `combined` 20,000.
    pub max_features: usize,
    /// The text whose scoring is timed.
    pub text: &'a str,
    /// How many calls are timed.
    pub calls: usize,
    /// The folder of MiniLM (`config.json`, `model.safetensors`, `tokenizer.json`), for torch.
    pub model: Option<&'a Path>,
    /// The same model as ONNX, for ONNX Runtime, with the tokenizer of `model`. Without it torch writes one,
    /// in 32-bit floats, to a temporary file.
    pub onnx: Option<&'a Path>,
    /// How long all of it may take.
    pub timeout_ms: u64,
}

/// What Python answered.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterpreterAnswer {
    /// Its version.
    pub python: String,
    /// `predict_proba` of the text, vectoriser included.
    pub sklearn: Option<Timed>,
    /// The embedding of the text, tokeniser included, one thread.
    pub torch: Option<Timed>,
    /// The same by ONNX Runtime.
    pub onnxruntime: Option<Timed>,
}

/// One package's time.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timed {
    /// Its version.
    pub version: String,
    /// The median of single calls, in microseconds.
    pub us_p50: f64,
    /// What it computed: for scikit-learn the probability, else the first number of the output.
    pub score: f64,
}

/// Asks the interpreter that the environment names. `None` when there is none, or no proper answer in time.
pub fn ask(question: &InterpreterQuestion<'_>) -> Option<InterpreterAnswer> {
    let named = std::env::var_os("CUSTODY_PYTHON");
    ask_interpreter(named.as_deref().map_or(Path::new("python3"), Path::new), question)
}

/// Asks `interpreter`.
pub fn ask_interpreter(
    interpreter: &Path,
    question: &InterpreterQuestion<'_>,
) -> Option<InterpreterAnswer> {
    let task = serde_json::json!({
        "train": question.train.iter().map(|row| {
            serde_json::json!({ "text": row.text, "label": row.label })
        }).collect::<Vec<_>>(),
        "max_features": question.max_features,
        "text": question.text,
        "calls": question.calls.max(1),
        "model": question.model,
        "onnx": question.onnx,
    });
    // Isolated: neither the working folder nor the user's packages change what is imported.
    let mut child = Command::new(interpreter)
        .args(["-I", "-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let answer = converse(&mut child, task.to_string(), question.timeout_ms);
    // It has either ended or taken too long; either way it leaves nothing behind.
    let _ = child.kill();
    let _ = child.wait();
    let answer: InterpreterAnswer = serde_json::from_slice(&answer?).ok()?;
    let times = [&answer.sklearn, &answer.torch, &answer.onnxruntime];
    if !times
        .into_iter()
        .flatten()
        .all(|timed: &Timed| timed.us_p50.is_finite() && timed.us_p50 > 0.0)
    {
        return None;
    }
    Some(answer)
}

/// Writes the task and reads the answer, each in a thread of its own, so that neither can block for good.
fn converse(child: &mut Child, task: String, timeout_ms: u64) -> Option<Vec<u8>> {
    let (mut stdin, stdout) = (child.stdin.take()?, child.stdout.take()?);
    // A child that does not read ends this thread when it is killed.
    std::thread::spawn(move || {
        let _ = stdin.write_all(task.as_bytes());
    });
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut answer = Vec::new();
        let read = stdout.take(MAX_ANSWER_BYTES + 1).read_to_end(&mut answer);
        let whole = read.is_ok() && answer.len() as u64 <= MAX_ANSWER_BYTES;
        let _ = sender.send(whole.then_some(answer));
    });
    receiver.recv_timeout(Duration::from_millis(timeout_ms)).ok()?
}

/// Our time for the same text beside theirs: `speed.ngram_us` and `speed.embedding_us`, with how many times
/// faster we are. A figure whose rival was not measured says so in `why`.
pub fn figures(
    ours_ngram_us: f64,
    ours_embedding_us: Option<f64>,
    found: Option<&InterpreterAnswer>,
) -> Vec<Figure> {
    let sklearn = found.and_then(|found| found.sklearn.as_ref());
    let onnx = found.and_then(|found| found.onnxruntime.as_ref());
    let torch = found.and_then(|found| found.torch.as_ref());
    let mut figures = comparison("ngram", Some(ours_ngram_us), "scikit-learn", sklearn);
    figures.extend(comparison("embedding", ours_embedding_us, "ONNX Runtime", onnx));
    if let (Some(ours), Some(timed)) = (ours_embedding_us, torch) {
        figures.extend(comparison("embedding_torch", Some(ours), "torch", Some(timed)));
    }
    figures
}

/// Our time, the package's, and how many times faster ours is.
fn comparison(name: &str, ours: Option<f64>, package: &str, timed: Option<&Timed>) -> Vec<Figure> {
    let (time, ratio) = (format!("speed.{name}_us"), format!("speed.{name}_times_faster"));
    let Some(ours) = ours else {
        return vec![Figure::unmeasured(&time, "us", "our model was not loaded")];
    };
    let Some(timed) = timed else {
        let why = format!(
            "{package} was not measured here; name a Python that has it in `CUSTODY_PYTHON`"
        );
        return vec![
            Figure { why: Some(why.clone()), ..Figure::real(&time, ours, "us") },
            Figure::unmeasured(&ratio, "times", why),
        ];
    };
    let rival = Rival { name: format!("{package} {}", timed.version), value: timed.us_p50 };
    vec![
        Figure { rival: Some(rival), ..Figure::real(&time, ours, "us") },
        Figure::real(&ratio, timed.us_p50 / ours, "times"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rival_that_was_not_measured_is_said_and_not_invented() {
        let timed = Timed { version: "1.9.1".into(), us_p50: 500.0, score: 0.5 };
        let answer = InterpreterAnswer {
            python: "3".into(),
            sklearn: Some(timed),
            torch: None,
            onnxruntime: None,
        };
        let found = figures(20.0, None, Some(&answer));
        assert_eq!(found[0].rival.as_ref().map(|rival| rival.value), Some(500.0));
        assert_eq!(
            (found[1].id.as_str(), found[1].value),
            ("speed.ngram_times_faster", Some(25.0))
        );
        assert_eq!((found[2].id.as_str(), found[2].value), ("speed.embedding_us", None));
        let alone = figures(20.0, Some(3_000.0), None);
        let measured: Vec<bool> = alone.iter().map(|figure| figure.value.is_some()).collect();
        assert_eq!(measured, [true, false, true, false]);
        assert!(alone.iter().all(|figure| figure.why.is_some()));
    }
}
