//! Matrix multiplication; the only module that uses the external crate for it.

use rten_gemm::{BiasVector, GemmExecutor, GemmInputA, GemmInputB, GemmOptions, PackedBMatrix};
use rten_tensor::{Matrix, NdTensorView};

thread_local! {
    // One per thread, because an executor cannot move between threads. It selects the instruction set.
    static EXECUTOR: GemmExecutor<f32> = GemmExecutor::new();
}

/// A strided matrix in a slice.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> View<'a> {
    /// `data` as rows of `columns` numbers, one after another.
    pub(crate) fn rows_of(data: &'a [f32], columns: usize) -> Self {
        Self::strided(data, data.len() / columns, columns, columns)
    }

    /// `rows` rows of `columns` numbers; each row begins `row_stride` after the one before it.
    pub(crate) fn strided(data: &'a [f32], rows: usize, columns: usize, row_stride: usize) -> Self {
        Self { data, rows, columns, row_stride, column_stride: 1 }
    }

    /// The same numbers with rows and columns exchanged; nothing is copied.
    pub(crate) fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    fn matrix(self) -> Matrix<'a, f32> {
        let shape = [self.rows, self.columns];
        NdTensorView::from_data_with_strides(
            shape,
            self.data,
            [self.row_stride, self.column_stride],
        )
        .expect("callers cut views out of slices that hold them")
    }
}

/// A right-hand matrix, packed once for many multiplications.
pub(crate) struct Packed(PackedBMatrix<f32>);

impl Packed {
    pub(crate) fn new(matrix: View<'_>) -> Self {
        Self(EXECUTOR.with(|executor| executor.prepack_b(matrix.matrix())))
    }
}

/// The right-hand side of a multiplication.
#[derive(Clone, Copy)]
pub(crate) enum Right<'a> {
    View(View<'a>),
    Packed(&'a Packed),
}

/// How the product is written to the output.
#[derive(Clone, Copy)]
pub(crate) struct Epilogue<'a> {
    /// A factor for every element of the product.
    pub(crate) scale: f32,
    /// Added to every row.
    pub(crate) bias: Option<&'a [f32]>,
    /// Whether the product is added to `out` instead of replacing it.
    pub(crate) add: bool,
}

impl Epilogue<'_> {
    /// The product alone.
    pub(crate) const REPLACE: Epilogue<'static> = Epilogue { scale: 1.0, bias: None, add: false };
}

/// `out = scale · left × right + bias (+ out)`, row by row in `out`.
///
/// The sum over the inner dimension runs in the same order whatever the number of threads.
pub(crate) fn multiply(out: &mut [f32], left: View<'_>, right: Right<'_>, epilogue: Epilogue<'_>) {
    let right = match right {
        Right::View(view) => GemmInputB::Unpacked(view.matrix()),
        Right::Packed(packed) => GemmInputB::Packed(&packed.0),
    };
    let options = GemmOptions {
        alpha: epilogue.scale,
        beta: if epilogue.add { 1.0 } else { 0.0 },
        bias: epilogue.bias.map(BiasVector::Row),
        ..GemmOptions::default()
    };
    EXECUTOR
        .with(|executor| executor.gemm(out, GemmInputA::Unpacked(left.matrix()), right, options))
        .expect("callers pass matrices whose shapes fit");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        (0..count)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                f32::from(u16::try_from(state >> 16).unwrap()) / 32768.0 - 1.0
            })
            .collect()
    }

    /// The product in double precision.
    fn naive(left: &[f32], right: &[f32], [m, k, n]: [usize; 3]) -> Vec<f64> {
        (0..m)
            .flat_map(|row| (0..n).map(move |column| (row, column)))
            .map(|(r, c)| {
                (0..k).map(|i| f64::from(left[r * k + i]) * f64::from(right[i * n + c])).sum()
            })
            .collect()
    }

    #[test]
    fn every_form_of_operand_gives_the_product() {
        for [m, k, n] in [[1, 5, 3], [7, 384, 33], [64, 600, 130], [129, 32, 129]] {
            let (left, right, bias) = (numbers(m * k, 1), numbers(k * n, 2), numbers(n, 3));
            let product = naive(&left, &right, [m, k, n]);
            let flipped: Vec<f32> = (0..n)
                .flat_map(|c| (0..k).map(move |r| (r, c)))
                .map(|(r, c)| right[r * n + c])
                .collect();
            let packed = Packed::new(View::rows_of(&right, n));
            let operands = [
                Right::View(View::rows_of(&right, n)),
                Right::View(View::rows_of(&flipped, k).transposed()),
                Right::Packed(&packed),
            ];
            for operand in operands {
                let mut out = vec![10.0; m * n];
                let epilogue = Epilogue { scale: 0.5, bias: Some(&bias), add: true };
                multiply(&mut out, View::rows_of(&left, k), operand, epilogue);
                for (index, (found, product)) in out.iter().zip(&product).enumerate() {
                    let expected = product * 0.5 + f64::from(bias[index % n]) + 10.0;
                    assert!(
                        (f64::from(*found) - expected).abs() < 1e-3,
                        "{m}×{k}×{n}: {found} {expected}"
                    );
                }
            }
        }
    }
}
