//! Text to vectors, tokens and weights: the embedder, the sequence classifiers, and where their files come from.
