//! A linear map of a layer: several matrices of the file with the same input, and adapters.

use std::ops::Range;

use crate::decoder::adapter::AttachedAdapter;
use crate::decoder::matrix::Matrix;
use crate::error::ModelError;
use crate::gguf::{Gguf, optional};

/// Stacked matrices, so that one multiplication computes all of them.
pub(crate) struct Linear {
    matrix: Matrix,
    bias: Option<Vec<f32>>,
    parts: Vec<Part>,
}

/// The rows of one tensor.
struct Part {
    /// Without `.weight`.
    name: String,
    rows: Range<usize>,
}

impl Linear {
    /// Reads `NAME.weight`, and `NAME.bias` where there is one, for every name with its count of rows.
    pub(crate) fn read(
        gguf: &Gguf<'_>,
        names: &[(String, usize)],
        inputs: usize,
    ) -> Result<Self, ModelError> {
        let (mut tensors, mut parts) = (Vec::new(), Vec::new());
        let (mut biases, mut has_bias) = (Vec::new(), false);
        for (name, rows) in names {
            let tensor = gguf.tensor(&format!("{name}.weight"))?;
            tensor.expect_shape(&[*rows, inputs])?;
            tensors.push(tensor);
            parts.push(Part { name: name.clone(), rows: biases.len()..biases.len() + rows });
            match optional(gguf.tensor(&format!("{name}.bias")))? {
                Some(bias) => {
                    bias.expect_shape(&[*rows])?;
                    biases.extend(bias.floats()?);
                    has_bias = true;
                }
                None => biases.resize(biases.len() + rows, 0.0),
            }
        }
        let matrix = Matrix::read(&tensors, inputs)?;
        Ok(Self { matrix, bias: has_bias.then_some(biases), parts })
    }

    /// The names of its tensors, including absent biases.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.parts
            .iter()
            .flat_map(|Part { name, .. }| [format!("{name}.weight"), format!("{name}.bias")])
    }

    /// `input`, `[tokens, inputs]`, times the matrices, plus the biases, plus what `adapters` add: `[tokens, rows]`.
    pub(crate) fn apply(&self, input: &[f32], adapters: &[AttachedAdapter]) -> Vec<f32> {
        let mut out = self.matrix.apply(input);
        let rows = self.matrix.rows();
        if let Some(bias) = &self.bias {
            out.chunks_exact_mut(rows).for_each(|row| crate::vector::add(row, bias));
        }
        for attached in adapters {
            for part in &self.parts {
                attached.add(&part.name, input, &mut out, rows, part.rows.clone());
            }
        }
        out
    }
}
