//! A bounds-checked reader. It never reads past the end or allocates more than it reads.

use super::GgufError;

/// The bytes of a file and the read position.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], GgufError> {
        let taken = self
            .rest()
            .get(..count)
            .ok_or_else(|| GgufError::damaged(format!("it ends at byte {}", self.bytes.len())))?;
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        let taken = self.take(N)?;
        Ok(taken.try_into().expect("`take` returns `N` bytes"))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, GgufError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, GgufError> {
        self.array().map(u64::from_le_bytes)
    }

    /// The number of items of at least `least_bytes` each, checked against the bytes that are left.
    pub(crate) fn count(&mut self, least_bytes: usize) -> Result<usize, GgufError> {
        let count = self.u64()?;
        self.fits(count, least_bytes)
    }

    /// Same as [`Self::count`] for a number that was read before.
    pub(crate) fn fits(&self, count: u64, least_bytes: usize) -> Result<usize, GgufError> {
        let most = self.rest().len() / least_bytes;
        usize::try_from(count).ok().filter(|count| *count <= most).ok_or_else(|| {
            GgufError::damaged(format!("it declares {count} items; its size allows {most}"))
        })
    }

    /// A text of at most `longest` bytes with a length prefix.
    pub(crate) fn text(&mut self, longest: usize) -> Result<&'a str, GgufError> {
        let length = self.count(1)?;
        if length > longest {
            let detail = format!("a name has {length} bytes; the limit is {longest}");
            return Err(GgufError::damaged(detail));
        }
        std::str::from_utf8(self.take(length)?)
            .map_err(|_| GgufError::damaged(format!("the text at byte {} is not UTF-8", self.at)))
    }

    /// Advances to the next multiple of `alignment`, or to the end if that is nearer.
    pub(crate) fn align(&mut self, alignment: u64) -> Result<(), GgufError> {
        let alignment = usize::try_from(alignment)
            .map_err(|_| GgufError::damaged("its alignment is larger than memory"))?;
        self.at = self.at.next_multiple_of(alignment).min(self.bytes.len());
        Ok(())
    }

    /// The unread bytes.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }
}
