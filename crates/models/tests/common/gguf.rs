//! Small GGUF files: written by hand, byte by byte, with no code of the reader.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "tests; each uses a part")]

/// A file in the making.
#[derive(Debug, Clone, Default)]
pub struct File {
    values: Vec<Vec<u8>>,
    tensors: Vec<(String, Vec<u64>, u32, Vec<u8>)>,
}

pub const F32: u32 = 0;
pub const Q8_0: u32 = 8;

impl File {
    /// A value of any kind: its number in GGUF and its bytes.
    pub fn value(mut self, key: &str, kind: u32, bytes: &[u8]) -> Self {
        self.values.push([&text(key)[..], &kind.to_le_bytes(), bytes].concat());
        self
    }

    pub fn text(self, key: &str, value: &str) -> Self {
        self.value(key, 8, &text(value))
    }

    pub fn number(self, key: &str, value: u32) -> Self {
        self.value(key, 4, &value.to_le_bytes())
    }

    pub fn float(self, key: &str, value: f32) -> Self {
        self.value(key, 6, &value.to_le_bytes())
    }

    pub fn flag(self, key: &str, value: bool) -> Self {
        self.value(key, 7, &[u8::from(value)])
    }

    pub fn texts(self, key: &str, values: &[String]) -> Self {
        let list = values.iter().flat_map(|value| text(value)).collect::<Vec<_>>();
        self.list(key, 8, values.len(), &list)
    }

    pub fn integers(self, key: &str, values: &[i32]) -> Self {
        let list: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.list(key, 5, values.len(), &list)
    }

    pub fn list(self, key: &str, kind: u32, count: usize, bytes: &[u8]) -> Self {
        let head = [&kind.to_le_bytes()[..], &(count as u64).to_le_bytes()].concat();
        self.value(key, 9, &[&head, bytes].concat())
    }

    /// A tensor; its shape is given outermost dimension first.
    pub fn tensor(mut self, name: &str, shape: &[usize], format: u32, bytes: Vec<u8>) -> Self {
        let sizes = shape.iter().rev().map(|size| *size as u64).collect();
        self.tensors.push((name.to_owned(), sizes, format, bytes));
        self
    }

    pub fn floats(self, name: &str, shape: &[usize], numbers: &[f32]) -> Self {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.tensor(name, shape, F32, bytes)
    }

    pub fn without(mut self, key: &str) -> Self {
        let key = text(key);
        self.values.retain(|value| !value.starts_with(&key));
        self.tensors.retain(|(name, ..)| text(name) != key);
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut file = self.head(self.tensors.len() as u64, self.values.len() as u64);
        let mut data = Vec::new();
        for value in &self.values {
            file.extend(value);
        }
        for (name, sizes, format, bytes) in &self.tensors {
            file.extend(text(name));
            file.extend(u32::try_from(sizes.len()).unwrap().to_le_bytes());
            file.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
            file.extend(format.to_le_bytes());
            file.extend((data.len() as u64).to_le_bytes());
            data.extend(bytes);
            data.resize(data.len().next_multiple_of(32), 0);
        }
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend(data);
        file
    }

    /// What a file begins with.
    pub fn head(&self, tensors: u64, values: u64) -> Vec<u8> {
        let counts = [tensors.to_le_bytes(), values.to_le_bytes()].concat();
        [&b"GGUF"[..], &3_u32.to_le_bytes(), &counts].concat()
    }
}

/// A text with its length before it.
pub fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// Blocks of 32 numbers `level · 2^-exponent`, and the numbers.
pub fn q8(levels: &[i8], exponent: u16) -> (Vec<u8>, Vec<f64>) {
    let half = ((15 - exponent) << 10).to_le_bytes();
    let scale = 0.5_f64.powi(exponent.into());
    let numbers = levels.iter().map(|level| f64::from(*level) * scale).collect();
    let bytes = levels
        .chunks(32)
        .flat_map(|levels| half.into_iter().chain(levels.iter().map(|level| level.cast_unsigned())))
        .collect();
    (bytes, numbers)
}
