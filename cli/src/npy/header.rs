//! The header of a .npy file: magic, version, length, and a Python dictionary in text.

use std::io::{self, Read};

use anyhow::{Context, Result, bail, ensure};
use gemmite::{DType, Layout, Shape};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// NumPy pads headers to a multiple of this, so that the data can be mapped into memory.
const ALIGNMENT: usize = 64;
/// NumPy itself refuses headers above 10,000 bytes; one of a matrix takes about a hundred.
const MAX_TEXT_BYTES: usize = 65_536;

/// What a header says, before it is asked whether that is a matrix of ours.
#[derive(Debug, PartialEq)]
pub struct Header {
    /// NumPy's description of the elements, as `<f4`.
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
    /// Where the data begins.
    pub bytes: usize,
}

impl Header {
    /// Reads a header; `from` then stands at the first element.
    pub fn read(from: &mut impl Read) -> Result<Header> {
        let mut start = [0; 8];
        read_or(from, &mut start, "it is no .npy file: it is shorter than the format's header")?;
        ensure!(
            start.starts_with(MAGIC),
            "it is no .npy file: it does not begin with \\x93NUMPY (write one with numpy.save)"
        );
        let cut_short = "truncated: it ends within its header";
        let (text_bytes, prefix_bytes) = match start[6] {
            1 => {
                let mut len = [0; 2];
                read_or(from, &mut len, cut_short)?;
                (usize::from(u16::from_le_bytes(len)), 10)
            }
            2 | 3 => {
                let mut len = [0; 4];
                read_or(from, &mut len, cut_short)?;
                (u32::from_le_bytes(len) as usize, 12)
            }
            major => bail!("version {major}.{} of the .npy format is unknown", start[7]),
        };
        ensure!(
            text_bytes <= MAX_TEXT_BYTES,
            "its header claims {text_bytes} bytes, and a matrix needs no more than {MAX_TEXT_BYTES}"
        );
        let mut text = vec![0; text_bytes];
        read_or(from, &mut text, cut_short)?;
        let text = std::str::from_utf8(&text).context("its header is not text")?;
        let bytes = prefix_bytes + text_bytes;
        parse(text, bytes)
            .with_context(|| format!("its header is malformed: {:?}", cut(text.trim_end(), 200)))
    }

    /// The dtype of the elements, checked against the one that the user stated.
    pub fn dtype(&self, stated: Option<DType>) -> Result<DType> {
        let descr = self.descr.as_str();
        let found = match (descr, stated) {
            ("|V2", None) => bail!(
                "its elements are raw bytes ('|V2'); if they are bfloat16, say so: --dtype bf16"
            ),
            ("|V2", _) => Some(DType::BF16),
            // Many types of one byte look like this.
            ("<V1" | "|V1" | "|u1", Some(stated)) if stated.is_fp8() => Some(stated),
            ("<V1" | "|V1", _) => bail!(
                "its elements are raw bytes ('{descr}'); if they are floats of 8 bits, say which: \
                 --dtype f8e4m3 or --dtype f8e5m2"
            ),
            _ => DType::ALL.into_iter().find(|&dtype| self::descr(dtype) == descr),
        };
        let Some(dtype) = found else { bail!("{}", unsupported(descr)) };
        if let Some(stated) = stated {
            ensure!(stated == dtype, "it holds {dtype} ('{descr}') and --dtype says {stated}");
        }
        Ok(dtype)
    }

    /// The layout of the matrix and the number of its elements.
    pub fn layout(&self, dtype: DType) -> Result<(Layout, usize)> {
        let shape = match self.shape[..] {
            [rows, cols] => Shape::new(rows, cols),
            [len] => bail!(
                "it holds a vector of {len} and not a matrix; give it a second dimension: \
                 a.reshape(-1, 1) for a column, a.reshape(1, -1) for a row"
            ),
            _ => bail!("it holds {} dimensions, {:?}, and not two", self.shape.len(), self.shape),
        };
        let layout =
            if self.fortran_order { Layout::col_major(shape) } else { Layout::row_major(shape) };
        let elements = shape
            .checked_len()
            .filter(|len| {
                len.checked_mul(dtype.size_bytes()).is_some_and(|b| b < isize::MAX as usize)
            })
            .with_context(|| format!("{shape} {dtype} is larger than any memory"))?;
        Ok((layout, elements))
    }
}

/// NumPy's description of `dtype`.
fn descr(dtype: DType) -> &'static str {
    match dtype {
        DType::I8 => "|i1",
        DType::I32 => "<i4",
        DType::F8E4M3 => "<V1",
        DType::F8E5M2 => "<f1",
        DType::F16 => "<f2",
        DType::BF16 => "<V2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
    }
}

fn unsupported(descr: &str) -> String {
    let ours = "dtypes are i8, i32, f8e4m3, f8e5m2, f16, bf16, f32 and f64";
    if let Some(rest) = descr.strip_prefix('>') {
        return format!("its numbers are big-endian ('{descr}'); convert it: a.astype('<{rest}')");
    }
    let remedy = match descr.as_bytes() {
        [b'<', b'i' | b'u', ..] | [b'|', b'i' | b'u' | b'b', b'1'] => {
            "; if its values fit: a.astype('int32')"
        }
        [b'<', b'f', ..] => "; convert it: a.astype('float64')",
        _ => "",
    };
    format!("its dtype '{descr}' is not supported: {ours}{remedy}")
}

/// The header of a C-order matrix, padded as NumPy pads it.
pub fn encode(dtype: DType, shape: Shape) -> Vec<u8> {
    let mut text = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({}, {}), }}",
        descr(dtype),
        shape.rows,
        shape.cols
    );
    let prefix = MAGIC.len() + 4;
    let unpadded = prefix + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', unpadded.next_multiple_of(ALIGNMENT) - unpadded));
    text.push('\n');
    let mut bytes = Vec::with_capacity(prefix + text.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[1, 0]);
    // Two numbers of at most 20 digits: the text stays far below 65,536 bytes.
    bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

fn read_or(from: &mut impl Read, buffer: &mut [u8], too_short: &'static str) -> Result<()> {
    match from.read_exact(buffer) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => bail!(too_short),
        other => Ok(other?),
    }
}

/// Parses the dictionary: the three keys in any order, each once.
fn parse(text: &str, bytes: usize) -> Result<Header> {
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    let mut rest = Text(text);
    rest.expect("{")?;
    while !rest.take("}") {
        let key = rest.string()?;
        rest.expect(":")?;
        let is_new = match key {
            "descr" => {
                descr.replace(rest.string().context("its dtype is no plain number")?).is_none()
            }
            "fortran_order" => fortran_order.replace(rest.boolean()?).is_none(),
            "shape" => shape.replace(rest.tuple()?).is_none(),
            _ => bail!("the key '{key}' is unknown"),
        };
        ensure!(is_new, "the key '{key}' stands there twice");
        if !rest.take(",") {
            rest.expect("}")?;
            break;
        }
    }
    ensure!(rest.0.trim().is_empty(), "something follows after the dictionary");
    Ok(Header {
        descr: descr.context("the key 'descr' is missing")?.to_owned(),
        fortran_order: fortran_order.context("the key 'fortran_order' is missing")?,
        shape: shape.context("the key 'shape' is missing")?,
        bytes,
    })
}

/// The part of the text that is still to be parsed.
struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    /// Takes `token`, if it comes next.
    fn take(&mut self, token: &str) -> bool {
        self.0 = self.0.trim_start();
        match self.0.strip_prefix(token) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        ensure!(self.take(token), "`{token}` is missing before {:?}", head(self.0));
        Ok(())
    }

    /// A string without escapes; NumPy writes none here.
    fn string(&mut self) -> Result<&'a str> {
        let quote = if self.take("'") { '\'' } else { '"' };
        ensure!(quote == '\'' || self.take("\""), "{:?} is no string", head(self.0));
        let (string, rest) = self.0.split_once(quote).context("a string does not end")?;
        self.0 = rest;
        Ok(string)
    }

    fn boolean(&mut self) -> Result<bool> {
        if self.take("True") {
            return Ok(true);
        }
        ensure!(self.take("False"), "{:?} is neither True nor False", head(self.0));
        Ok(false)
    }

    /// A tuple of sizes. Python 2 wrote an L after each.
    fn tuple(&mut self) -> Result<Vec<usize>> {
        let mut sizes = Vec::new();
        self.expect("(")?;
        while !self.take(")") {
            self.0 = self.0.trim_start();
            let digits = self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len());
            let (number, rest) = self.0.split_at(digits);
            ensure!(digits > 0, "{:?} is no size", head(self.0));
            sizes.push(number.parse().with_context(|| format!("the size {number}"))?);
            self.0 = rest;
            self.take("L");
            if !self.take(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(sizes)
    }
}

/// The beginning of `text`, for a message.
fn head(text: &str) -> &str {
    cut(text, 20)
}

/// So many characters of `text`.
fn cut(text: &str, len: usize) -> &str {
    text.char_indices().nth(len).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(descr: &str, fortran_order: bool, shape: &[usize]) -> Header {
        Header { descr: descr.into(), fortran_order, shape: shape.into(), bytes: 0 }
    }

    #[test]
    fn reads_what_numpy_writes() {
        let cases = [
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n",
                ("<f4", false, vec![2, 3]),
            ),
            (
                "{\"shape\":(2L,3L),\"descr\":\"<V2\",\"fortran_order\":True}",
                ("<V2", true, vec![2, 3]),
            ),
            ("{'descr': '<i4', 'fortran_order': False, 'shape': (), }", ("<i4", false, vec![])),
            ("{'descr': '<i4', 'fortran_order': False, 'shape': (7,), }", ("<i4", false, vec![7])),
        ];
        for (text, (descr, fortran, shape)) in cases {
            assert_eq!(parse(text, 0).unwrap(), header(descr, fortran, &shape), "{text}");
        }
    }

    #[test]
    fn malformed_dictionaries_are_errors() {
        let cases = [
            ("", "`{` is missing"),
            ("{'descr': '<f4'", "`}` is missing"),
            ("{'descr': '<f4', 'shape': (2, 3)}", "'fortran_order' is missing"),
            ("{'descr': '<f4', 'descr': '<f4'}", "twice"),
            ("{'descr': [('x', '<f4')]}", "no plain number"),
            ("{'shape': (2, -3)}", "no size"),
            ("{'shape': (99999999999999999999, 3)}", "the size 99999999999999999999"),
            ("{'shape': (2, 3}", "`)` is missing"),
            ("{'fortran_order': 1}", "neither True nor False"),
            ("{'colour': 'red'}", "unknown"),
            ("{'descr': '<f4", "does not end"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} x", "follows"),
        ];
        for (text, want) in cases {
            let error = format!("{:#}", parse(text, 0).unwrap_err());
            assert!(error.contains(want), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for dtype in DType::ALL {
            for shape in [Shape::new(0, 3), Shape::new(usize::MAX, 1), Shape::new(12, 3456)] {
                let bytes = encode(dtype, shape);
                assert_eq!(bytes.len() % ALIGNMENT, 0);
                let header = Header::read(&mut &bytes[..]).unwrap();
                assert_eq!(header.bytes, bytes.len());
                let stated = Some(dtype).filter(|&dtype| dtype == DType::F8E4M3);
                assert_eq!(header.dtype(stated).unwrap(), dtype);
                assert_eq!(header.shape, [shape.rows, shape.cols]);
            }
        }
    }

    #[test]
    fn layouts_and_their_limits() {
        let (layout, elements) = header("<f4", true, &[4, 5]).layout(DType::F32).unwrap();
        assert_eq!((layout, elements), (Layout::col_major(Shape::new(4, 5)), 20));
        let most = isize::MAX as usize;
        let cases: [(&[usize], &str); 5] = [
            (&[usize::MAX, 2], "larger than any memory"),
            (&[most, 1], "larger than any memory"),
            (&[1, 2, 3], "3 dimensions"),
            (&[7], "a vector of 7"),
            (&[], "0 dimensions"),
        ];
        for (shape, want) in cases {
            let error = header("<f4", false, shape).layout(DType::F32).unwrap_err().to_string();
            assert!(error.contains(want), "{shape:?}: {error}");
        }
    }

    #[test]
    fn dtypes_and_what_is_none() {
        assert_eq!(header("|V2", false, &[]).dtype(Some(DType::BF16)).unwrap(), DType::BF16);
        for (descr, dtype) in [
            ("|u1", DType::F8E4M3),
            ("|u1", DType::F8E5M2),
            ("|V1", DType::F8E5M2),
            ("<V1", DType::F8E4M3),
        ] {
            assert_eq!(header(descr, false, &[]).dtype(Some(dtype)).unwrap(), dtype);
        }
        assert_eq!(header("<f1", false, &[]).dtype(None).unwrap(), DType::F8E5M2);
        let cases = [
            ("<V1", None, "--dtype f8e4m3"),
            ("|V1", Some(DType::I8), "--dtype f8e5m2"),
            ("<f1", Some(DType::F8E4M3), "it holds f8e5m2"),
            ("|u1", None, "astype('int32')"),
            ("|V2", None, "--dtype bf16"),
            ("|V2", Some(DType::F16), "--dtype says f16"),
            ("<f4", Some(DType::F64), "it holds f32"),
            (">f4", None, "big-endian"),
            ("<i8", None, "astype('int32')"),
            ("<f16", None, "astype('float64')"),
            ("|O", None, "not supported"),
        ];
        for (descr, stated, want) in cases {
            let error = header(descr, false, &[]).dtype(stated).unwrap_err().to_string();
            assert!(error.contains(want), "{descr}: {error}");
        }
    }
}
