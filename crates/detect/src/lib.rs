//! How suspicious a text looks: advice, never a decision.
