//! Matrices in NumPy's .npy format, versions 1.0 to 3.0, little-endian, in C or in Fortran order.
//!
//! A reader of our own, because the crates for the format know neither f16 nor bf16. NumPy has no
//! name for bfloat16: with the package ml_dtypes it writes `'<V2'`, two bytes of no stated kind,
//! which is therefore read, and written, as bf16. `'|V2'`, raw bytes (what such a file becomes when
//! NumPy loads and saves it), is read as bf16 only for a user who says so. Of floats of 8 bits
//! ml_dtypes writes e5m2 as `'<f1'`, and e4m3 as `'<V1'`, as it does a dozen other types; that, raw
//! bytes and `'|u1'` are read as one of the two for a user who says which.

mod header;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use gemmite::{DType, Element, Layout, Matrix, MatrixRef, Shape};

use header::Header;

#[cfg(target_endian = "big")]
compile_error!(
    "the .npy reader takes numbers as they lie in memory, which has to be little-endian"
);

/// A .npy file whose header has been read and found to describe a matrix.
#[derive(Debug)]
pub struct NpyFile<R = File> {
    path: PathBuf,
    from: R,
    /// The bytes of its elements are known to be there.
    is_whole: bool,
    dtype: DType,
    layout: Layout,
    elements: usize,
}

/// Elements of a pipe that are read at a time.
const PIECE: usize = 1 << 18;

/// The elements of a file, in the order in which they lie there.
pub struct Loaded<T> {
    data: Vec<T>,
    layout: Layout,
}

impl<T: Element> Loaded<T> {
    /// The matrix. Fortran order is a matter of strides; nothing is copied.
    pub fn view(&self) -> Result<MatrixRef<'_, T>> {
        Ok(MatrixRef::new(&self.data, self.layout)?)
    }

    /// The matrix with its rows one after the other; copied where the file is in Fortran order.
    pub fn into_row_major(self) -> Result<Matrix<T>> {
        if self.layout == Layout::row_major(self.layout.shape) {
            return Ok(Matrix::from_vec(self.layout.shape, self.data)?);
        }
        Ok(self.view()?.to_matrix()?)
    }
}

impl NpyFile {
    /// Opens `path` and checks its header. `stated` is the dtype that the user says the file has.
    pub fn open(path: &Path, stated: Option<DType>) -> Result<Self> {
        Self::try_open(path, stated).with_context(|| format!("cannot read {}", path.display()))
    }

    fn try_open(path: &Path, stated: Option<DType>) -> Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        ensure!(!metadata.is_dir(), "it is a directory");
        let len = metadata.is_file().then_some(metadata.len());
        Self::from_reader(file, len, path, stated)
    }
}

impl<R: Read> NpyFile<R> {
    /// Checks the header of what `from` reads, which has `len` bytes in all if that is known.
    /// Errors do not name the path.
    pub fn from_reader(
        mut from: R,
        len: Option<u64>,
        path: &Path,
        stated: Option<DType>,
    ) -> Result<Self> {
        let header = Header::read(&mut from)?;
        let dtype = header.dtype(stated)?;
        let (layout, elements) = header.layout(dtype)?;
        if let Some(len) = len {
            // Before memory is allocated for what the header promises.
            let have = len.saturating_sub(header.bytes as u64);
            let want = (elements * dtype.size_bytes()) as u64;
            let matrix = format!("{} {dtype}", layout.shape);
            ensure!(
                have >= want,
                "truncated: {matrix} takes {want} bytes and the file has {have} after its header"
            );
            ensure!(have == want, "{} bytes follow after the {want} of {matrix}", have - want);
        }
        let is_whole = len.is_some();
        Ok(NpyFile { path: path.to_owned(), from, is_whole, dtype, layout, elements })
    }

    /// The path, as the user gave it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The dtype of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Rows and columns, as NumPy shows them.
    pub fn shape(&self) -> Shape {
        self.layout.shape
    }

    /// Whether the columns, not the rows, lie one after the other.
    pub fn is_fortran_order(&self) -> bool {
        self.layout != Layout::row_major(self.layout.shape)
    }

    /// Reads the elements. `T` is of [`NpyFile::dtype`].
    pub fn read<T: Element>(mut self) -> Result<Loaded<T>> {
        assert_eq!(T::DTYPE, self.dtype, "callers dispatch on dtype()");
        let data = self.read_elements();
        let data = data.with_context(|| format!("cannot read {}", self.path.display()))?;
        Ok(Loaded { data, layout: self.layout })
    }

    fn read_elements<T: Element>(&mut self) -> Result<Vec<T>> {
        let bytes = self.elements * size_of::<T>();
        let mut data: Vec<T> = Vec::new();
        // A pipe had no length that could be checked beforehand, so that memory comes as bytes do.
        let at_once = if self.is_whole { self.elements } else { PIECE };
        while data.len() < self.elements {
            let read = data.len();
            let piece = at_once.min(self.elements - read);
            let room = match self.is_whole {
                true => data.try_reserve_exact(piece),
                false => data.try_reserve(piece),
            };
            room.with_context(|| format!("no memory for its {bytes} bytes"))?;
            data.resize(read + piece, T::default());
            match self.from.read_exact(bytemuck::cast_slice_mut(&mut data[read..])) {
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                    bail!("truncated: it ends before the {bytes} bytes that its header promises")
                }
                other => other?,
            }
        }
        ensure!(
            self.from.read(&mut [0])? == 0,
            "more bytes follow after the {bytes} of its matrix"
        );
        Ok(data)
    }
}

/// Writes `matrix` as a .npy file, version 1.0, C order.
pub fn write<T: Element>(to: &mut impl Write, matrix: &Matrix<T>) -> io::Result<()> {
    to.write_all(&header::encode(T::DTYPE, matrix.shape()))?;
    to.write_all(bytemuck::cast_slice(matrix.as_slice()))
}
