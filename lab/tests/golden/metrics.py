"""Writes metrics.json: random scores with ties, and what scikit-learn and numpy say of them.

Run with scikit-learn 1.9.1 and numpy 2.4: python3 metrics.py > metrics.json
"""

import json
import warnings

import numpy as np
from sklearn import metrics

warnings.filterwarnings("ignore")
generator = np.random.default_rng(20260101)


def case(name, rows, positive_rate, steps, threshold):
    labels = generator.random(rows) < positive_rate
    noise = generator.normal(0.35, 0.25, rows) + 0.3 * labels
    scores = np.clip(np.round(noise * steps) / steps, 0.0, 1.0)
    flagged = scores >= threshold
    tn, fp, fn, tp = metrics.confusion_matrix(labels, flagged, labels=[False, True]).ravel()
    both = 0 < labels.sum() < rows
    fpr, tpr, _ = metrics.roc_curve(labels, scores, drop_intermediate=False)
    edges = np.digitize(scores, np.arange(1, 10) / 10)
    error = sum(
        (edges == b).sum() / rows * abs(scores[edges == b].mean() - labels[edges == b].mean())
        for b in range(10)
        if (edges == b).any()
    )
    return {
        "name": name,
        "scores": scores.tolist(),
        "labels": labels.tolist(),
        "threshold": threshold,
        "confusion": [int(tp), int(tn), int(fp), int(fn)],
        "accuracy": metrics.accuracy_score(labels, flagged),
        "precision": metrics.precision_score(labels, flagged, zero_division=0),
        "recall": metrics.recall_score(labels, flagged, zero_division=0),
        "f1": metrics.f1_score(labels, flagged, zero_division=0),
        "auroc": metrics.roc_auc_score(labels, scores) if both else None,
        "average_precision": metrics.average_precision_score(labels, scores) if both else None,
        "roc": [fpr.tolist(), tpr.tolist()] if both else None,
        "recall_at_5pct": max(t for f, t in zip(fpr, tpr) if f <= 0.05) if both else None,
        "calibration_error": error,
        "percentiles": [[q, float(np.percentile(scores, q))] for q in (0, 2.5, 33, 50, 97.5, 100)],
    }


print(
    json.dumps(
        [
            case("many ties", 60, 0.5, 10, 0.5),
            case("few ties", 90, 0.3, 1000, 0.4),
            case("rare positives", 80, 0.08, 50, 0.6),
            case("nothing flagged", 30, 0.4, 20, 1.5),
            case("ordinary rows only", 20, 0.0, 20, 0.5),
        ],
        separators=(",", ":"),
    )
)
