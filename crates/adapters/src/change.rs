//! The change that an adapter makes to one matrix, as a product of two thin ones.

use crate::adapter::Module;
use crate::configuration::Configuration;
use crate::error::AdapterError;
use crate::kind::AdapterKind;
use crate::tensors::TensorFile;

/// The largest rank of a change that is evaluated.
pub(crate) const MAX_RANK: usize = 512;

/// A matrix of numbers, row by row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) numbers: Vec<f32>,
}

/// `scale · left · right`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LowRankChange {
    pub(crate) scale: f64,
    /// `[outputs, rank]`.
    pub(crate) left: Matrix,
    /// `[rank, inputs]`.
    pub(crate) right: Matrix,
}

/// Why a change is not evaluated.
pub(crate) type NotEvaluated = &'static str;

impl Matrix {
    fn read(file: &TensorFile, name: &str) -> Result<Self, AdapterError> {
        let entry = file.entry(name)?;
        let &[rows, columns] = entry.shape.as_slice() else {
            let (name, found) = (name.to_owned(), entry.shape.clone());
            return Err(AdapterError::Shape { name, found, expected: "a matrix" });
        };
        Ok(Self { rows, columns, numbers: file.floats(name)? })
    }

    pub(crate) fn row(&self, row: usize) -> &[f32] {
        let start = row * self.columns;
        self.numbers.get(start..start + self.columns).unwrap_or_default()
    }

    /// The largest of its numbers, without its sign.
    pub(crate) fn largest(&self) -> f32 {
        self.numbers.iter().fold(0.0, |largest, number| number.abs().max(largest))
    }

    /// The same with the largest of its numbers 1.
    pub(crate) fn unit(&self) -> Self {
        let largest = self.largest();
        let factor = if largest > 0.0 { largest } else { 1.0 };
        let numbers = self.numbers.iter().map(|number| number / factor).collect();
        Self { numbers, ..*self }
    }

    pub(crate) fn transposed(&self) -> Self {
        let (rows, columns) = (self.columns, self.rows);
        let mut numbers = Vec::with_capacity(self.numbers.len());
        for row in 0..rows {
            numbers.extend(self.numbers.iter().skip(row).step_by(rows.max(1)));
        }
        Self { rows, columns, numbers }
    }

    /// The same with each row multiplied by one of `factors`.
    fn with_rows_scaled(mut self, factors: &[f32]) -> Self {
        if self.columns > 0 {
            for (row, factor) in self.numbers.chunks_mut(self.columns).zip(factors) {
                row.iter_mut().for_each(|number| *number *= factor);
            }
        }
        self
    }
}

/// The change of a module; `Err` inside says why it is not evaluated.
///
/// # Errors
/// When its tensors do not fit one another.
pub(crate) fn read(
    file: &TensorFile,
    configuration: &Configuration,
    kind: AdapterKind,
    module: &Module,
) -> Result<Result<LowRankChange, NotEvaluated>, AdapterError> {
    if configuration.altered_base.is_some() {
        return Ok(Err(
            "it alters the base model when it is loaded, so its change needs that model",
        ));
    }
    let change = match kind {
        AdapterKind::Lora | AdapterKind::RsLora => lora(file, module)?,
        AdapterKind::AdaLora => ada_lora(file, module)?,
        AdapterKind::Vera => match vera(file, module)? {
            Some(change) => change,
            None => return Ok(Err("its shared matrices are not in the file")),
        },
        AdapterKind::LoHa => match lo_ha(file, module)? {
            Some(change) => change,
            None => return Ok(Err("it has tensors for convolutions, or too large a rank")),
        },
        AdapterKind::Dora => return Ok(Err("its change needs the base model")),
        AdapterKind::LoKr => return Ok(Err("products of Kronecker are not evaluated")),
        AdapterKind::Ia3 | AdapterKind::Oft | AdapterKind::Boft => {
            return Ok(Err(
                "it multiplies the weights of the base model, so its change needs that model",
            ));
        }
        AdapterKind::PrefixTuning | AdapterKind::PromptTuning | AdapterKind::PTuning => {
            return Ok(Err("it changes no weights"));
        }
    };
    if change.left.columns != change.right.rows {
        let (name, found) = (module.name.clone(), vec![change.left.columns, change.right.rows]);
        return Err(AdapterError::Shape { name, found, expected: "one rank" });
    }
    if change.left.columns > MAX_RANK {
        return Ok(Err("its rank is too large to be evaluated"));
    }
    // That of VeRA is 1, whatever the rank.
    match configuration.scale(&module.name, change.left.columns) {
        Some(scale) if scale.is_finite() => Ok(Ok(LowRankChange { scale, ..change })),
        _ => Ok(Err("its configuration gives no scale, or more than one")),
    }
}

fn lora(file: &TensorFile, module: &Module) -> Result<LowRankChange, AdapterError> {
    // Embeddings are looked up: A has a column for each token.
    let (a, b) = match module.tensor("lora_embedding_A") {
        Some(a) => (a, module.needed("lora_embedding_B")?),
        None => (module.needed("lora_A.weight")?, module.needed("lora_B.weight")?),
    };
    Ok(LowRankChange { scale: 1.0, left: Matrix::read(file, b)?, right: Matrix::read(file, a)? })
}

fn ada_lora(file: &TensorFile, module: &Module) -> Result<LowRankChange, AdapterError> {
    let right = Matrix::read(file, module.needed("lora_A")?)?;
    let factors = Matrix::read(file, module.needed("lora_E")?)?;
    if (factors.rows, factors.columns) != (right.rows, 1) {
        let (name, found) = (module.name.clone(), vec![factors.rows, factors.columns]);
        return Err(AdapterError::Shape { name, found, expected: "a factor for each row of A" });
    }
    let right = right.with_rows_scaled(&factors.numbers);
    Ok(LowRankChange { scale: 1.0, left: Matrix::read(file, module.needed("lora_B")?)?, right })
}

/// The shared matrices are larger than any module: each takes the part that it needs.
fn vera(file: &TensorFile, module: &Module) -> Result<Option<LowRankChange>, AdapterError> {
    let (a, b) = ("base_model.vera_A", "base_model.vera_B");
    if !file.tensors().contains_key(a) || !file.tensors().contains_key(b) {
        return Ok(None);
    }
    let (right, left) = (Matrix::read(file, a)?, Matrix::read(file, b)?);
    let outputs = file.floats(module.needed("vera_lambda_b")?)?;
    let ranks = file.floats(module.needed("vera_lambda_d")?)?;
    if outputs.len() > left.rows || ranks.len() != right.rows {
        let (name, found) = (module.name.clone(), vec![outputs.len(), ranks.len()]);
        return Err(AdapterError::Shape { name, found, expected: "a part of the shared matrices" });
    }
    let (columns, rows) = (left.columns, outputs.len());
    let part = left.numbers.get(..rows * columns).unwrap_or_default().to_vec();
    let left = Matrix { rows, columns, numbers: part }.with_rows_scaled(&outputs);
    Ok(Some(LowRankChange { scale: 1.0, left, right: right.with_rows_scaled(&ranks) }))
}

/// `(B₁A₁)∘(B₂A₂)` is a product of two matrices, too: each pair of their columns, and of their rows, makes one.
fn lo_ha(file: &TensorFile, module: &Module) -> Result<Option<LowRankChange>, AdapterError> {
    if module.tensor("hada_t1").is_some() || module.tensor("hada_t2").is_some() {
        return Ok(None);
    }
    let [left_1, right_1, left_2, right_2] = [
        Matrix::read(file, module.needed("hada_w1_a")?)?,
        Matrix::read(file, module.needed("hada_w1_b")?)?,
        Matrix::read(file, module.needed("hada_w2_a")?)?,
        Matrix::read(file, module.needed("hada_w2_b")?)?,
    ];
    let fits = left_1.rows == left_2.rows
        && right_1.columns == right_2.columns
        && left_1.columns == right_1.rows
        && left_2.columns == right_2.rows;
    if !fits {
        let (name, found) = (module.name.clone(), vec![left_1.rows, left_2.rows]);
        return Err(AdapterError::Shape { name, found, expected: "two products of one shape" });
    }
    if left_1.columns * left_2.columns > MAX_RANK {
        return Ok(None);
    }
    let left = paired_columns(&left_1, &left_2);
    let right = paired_columns(&right_1.transposed(), &right_2.transposed()).transposed();
    Ok(Some(LowRankChange { scale: 1.0, left, right }))
}

/// For each row all products of a number of `one` and a number of `other`.
fn paired_columns(one: &Matrix, other: &Matrix) -> Matrix {
    let (rows, columns) = (one.rows, one.columns * other.columns);
    let mut numbers = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        for first in one.row(row) {
            numbers.extend(other.row(row).iter().map(|second| first * second));
        }
    }
    Matrix { rows, columns, numbers }
}
