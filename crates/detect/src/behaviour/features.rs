//! What the trained detector computes from the vectors of a text and an answer.

use serde::{Deserialize, Serialize};

/// Unit vectors of a chunk of an answer and of the chunk of the text most similar to it.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerPair {
    /// Of the text that the agent read.
    pub text: Vec<f32>,
    /// Of the answer.
    pub answer: Vec<f32>,
}

/// The features of an [`AnswerPair`] that the regression uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Features {
    /// The answer's vector.
    Answer,
    /// The answer's vector, and its element-wise product with the text's.
    AnswerAndProduct,
    /// The answer's vector, and the element-wise absolute difference from the text's.
    AnswerAndDistance,
    /// Both vectors and their product.
    Both,
}

impl Features {
    /// All variants, in the order of their width.
    pub const ALL: [Self; 4] =
        [Self::Answer, Self::AnswerAndProduct, Self::AnswerAndDistance, Self::Both];

    /// The number of features of two vectors of `dimension`.
    #[must_use]
    pub fn width(self, dimension: usize) -> usize {
        match self {
            Self::Answer => dimension,
            Self::AnswerAndProduct | Self::AnswerAndDistance => 2 * dimension,
            Self::Both => 3 * dimension,
        }
    }

    /// The features of `pair`.
    #[must_use]
    pub fn of(self, pair: &AnswerPair) -> Vec<f32> {
        let AnswerPair { text, answer } = pair;
        match self {
            Self::Answer => answer.clone(),
            Self::AnswerAndProduct => [answer.clone(), product(text, answer)].concat(),
            Self::AnswerAndDistance => [answer.clone(), distance(text, answer)].concat(),
            Self::Both => [answer.clone(), text.clone(), product(text, answer)].concat(),
        }
    }

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::AnswerAndProduct => "answer and product",
            Self::AnswerAndDistance => "answer and distance",
            Self::Both => "answer and text and product",
        }
    }
}

/// The element-wise product times the square root of the dimension: unscaled, it is that much smaller than the elements
/// of unit vectors, and the penalty of the regression would suppress it.
#[expect(clippy::cast_precision_loss, reason = "a dimension is far below 2^24")]
fn product(text: &[f32], answer: &[f32]) -> Vec<f32> {
    let scale = (answer.len() as f32).sqrt();
    text.iter().zip(answer).map(|(text, answer)| scale * text * answer).collect()
}

fn distance(text: &[f32], answer: &[f32]) -> Vec<f32> {
    text.iter().zip(answer).map(|(text, answer)| (text - answer).abs()).collect()
}
