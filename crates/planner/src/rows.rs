//! Rows of numbers in two flat arrays: compressed sparse rows. No row has an allocation of its own.

/// Rows, each a list of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    /// Where each row starts, and where the last one ends.
    starts: Vec<u32>,
    values: Vec<u32>,
}

/// The rows would hold more numbers than can be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

impl Rows {
    pub(crate) fn new() -> Self {
        Self { starts: vec![0], values: Vec::new() }
    }

    /// Appends a row.
    pub(crate) fn push(&mut self, row: &[u32]) -> Result<(), Full> {
        let end = u32::try_from(self.values.len() + row.len()).map_err(|_| Full)?;
        self.values.extend_from_slice(row);
        self.starts.push(end);
        Ok(())
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// One row; empty when there is none of that number.
    pub(crate) fn row(&self, number: u32) -> &[u32] {
        let at = number as usize;
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(from), Some(to)) => {
                self.values.get(*from as usize..*to as usize).unwrap_or_default()
            }
            _ => &[],
        }
    }

    /// The edges turned round: row `v` of the result lists the rows that hold `v`, ascending, for each `v`
    /// below `rows`. Linear.
    pub(crate) fn turned(&self, rows: usize) -> Self {
        let mut starts = vec![0_u32; rows + 1];
        for value in &self.values {
            if let Some(count) = starts.get_mut(*value as usize + 1) {
                *count += 1;
            }
        }
        let mut total = 0;
        for start in &mut starts {
            total += *start;
            *start = total;
        }
        let mut free = starts.clone();
        let mut values = vec![0; total as usize];
        for (row, bounds) in (0_u32..).zip(self.starts.windows(2)) {
            let [from, to] = bounds else { continue };
            for value in self.values.get(*from as usize..*to as usize).unwrap_or_default() {
                let Some(at) = free.get_mut(*value as usize) else { continue };
                if let Some(place) = values.get_mut(*at as usize) {
                    *place = row;
                }
                *at += 1;
            }
        }
        Self { starts, values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turning_rows_twice_gives_them_back() {
        let mut rows = Rows::new();
        for row in [[1, 2].as_slice(), &[], &[0, 1, 2], &[1]] {
            rows.push(row).unwrap();
        }
        let turned = rows.turned(3);
        assert_eq!([turned.row(0), turned.row(1), turned.row(2)], [&[2][..], &[0, 2, 3], &[0, 2]]);
        let again = turned.turned(rows.len());
        assert_eq!((again.starts, again.values), (rows.starts, rows.values));
        assert!(turned.row(3).is_empty() && turned.row(u32::MAX).is_empty());
    }
}
