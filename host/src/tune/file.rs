//! Tunings as text.
//!
//! A line for the version, six for what the plans were measured on, one for each plan, and a last
//! one that counts them and has a checksum of all before it:
//!
//! ```text
//! gemmite tuning, version 3
//! gpu = NVIDIA H100 80GB HBM3
//! capability = 9.0
//! multiprocessors = 132
//! clusters = 15
//! driver = 13.0
//! library = 0.1.0 443539ff0fbf528d-71aa7b4a44196ad4-99ae0ab939eb4b1e-fa7ca6e5e885c993
//! plan bf16 full to bf16 512x512x512 along 10 maps yes 00 skew 0,0 = warp_group_64x64 00 1 3.88
//! end 1 0123456789abcdef
//! ```
//!
//! A plan has the dtype of A and B, the precision, C's dtype, C's rows and columns and K as the
//! kernel takes them, which of A and B lie along K, whether tensor maps describe both (`yes`, `no`,
//! or `rows` where maps of every eighth row do), and which they do not (`-` where nothing could be
//! copied for that); then the kernel, the operands that are copied, the parts of K, and
//! microseconds. Whatever is not exactly so is an error: what can be read in two ways is not worth
//! reading.

use super::{Entry, Origin, Tuning};
use crate::error::{Error, Kind};
use crate::plan::{Rows, Task};
use gemm_spec::{Precision, Shape};
use std::collections::HashSet;
use std::fmt::{self, Write as _};
use std::io::Read;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};

const HEAD: &str = "gemmite tuning, version ";
const VERSION: u32 = 3;
/// Bytes of the longest file that is read: some hundred thousand plans.
const LONGEST: u64 = 16 << 20;

/// Why a tuning is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TuningFault {
    #[error("is no file of `gemmite tune`: its first line is not `{HEAD}{VERSION}`")]
    NotOne,
    #[error("has version {0}, and this library reads version {VERSION}: it is another library's")]
    Version(u32),
    #[error("is damaged in line {line}: {what}")]
    Damaged { line: usize, what: &'static str },
    #[error("was made for {what} {found}, and here is {here}")]
    Foreign { what: &'static str, found: String, here: String },
    #[error("has the plan {plan} for a C of shape {shape}, which cannot be taken: {why}")]
    Plan { plan: String, shape: Shape, why: String },
}

/// FNV-1a: what is damaged by chance shows; whoever forges a file can count too, and gets no more
/// than a slow plan.
fn checksum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Tuning {
    /// Reads a file that [`Tuning::write`] wrote. Nothing is taken yet: see
    /// [`Device::take_tuning`](crate::Device::take_tuning).
    ///
    /// # Errors
    /// When the file cannot be read; [`Error::is_tuning`] when it is cut off or damaged, longer
    /// than 16 MiB, or of another version.
    pub fn read(path: impl AsRef<Path>) -> Result<Tuning, Error> {
        let path = path.as_ref();
        let mut bytes = Vec::new();
        let read = std::fs::File::open(path)
            .and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes));
        read.map_err(|source| failed(path, "read", source))?;
        let damaged = |what| Error::new(Kind::Tuning(TuningFault::Damaged { line: 1, what }));
        if bytes.len() as u64 > LONGEST {
            return Err(damaged("it is longer than 16 MiB"));
        }
        String::from_utf8(bytes).map_err(|_| damaged("it is no text"))?.parse()
    }

    /// Writes a file, whole or not at all: what was there is replaced at the end.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        // A link stays, as with other files that the command writes.
        let target = path.canonicalize();
        let path = target.as_deref().unwrap_or(path);
        // Of its own, so that nobody's half of a file gets the name.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}.{number}.new", std::process::id()));
        let written =
            std::fs::write(&name, self.to_string()).and_then(|()| std::fs::rename(&name, path));
        written.map_err(|source| {
            // Nothing is left to do where that fails too.
            let _ = std::fs::remove_file(&name);
            failed(path, "written", source)
        })
    }
}

fn failed(path: &Path, doing: &'static str, source: std::io::Error) -> Error {
    Error::new(Kind::TuningFile { path: path.display().to_string(), doing, source })
}

/// As text that can be parsed.
impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin { gpu, capability, multiprocessors, clusters, driver, library } = &self.origin;
        let mut text = format!(
            "{HEAD}{VERSION}\ngpu = {gpu}\ncapability = {}.{}\nmultiprocessors = \
            {multiprocessors}\nclusters = {clusters}\ndriver = {}.{}\nlibrary = {library}\n",
            capability.0, capability.1, driver.0, driver.1
        );
        for entry in &self.entries {
            writeln!(text, "{}", Line(entry))?;
        }
        writeln!(f, "{text}end {} {:016x}", self.entries.len(), checksum(&text))
    }
}

/// What a line calls them.
const PRECISIONS: [(&str, Precision); 3] =
    [("full", Precision::Full), ("tf32", Precision::Tf32), ("bf16x6", Precision::Bf16x6)];

struct Line<'a>(&'a Entry);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entry { task, variant, copied, parts, micros } = self.0;
        let named = PRECISIONS.iter().find(|(_, how)| *how == task.precision);
        let (precision, _) = named.ok_or(fmt::Error)?;
        let unmapped = task.unmapped.map_or("-", flags);
        let maps = match (task.maps, task.row_maps) {
            (true, _) => "yes",
            (false, true) => "rows",
            (false, false) => "no",
        };
        let Shape { rows, cols } = task.shape;
        write!(
            f,
            "plan {} {precision} to {} {rows}x{cols}x{} along {} maps {} {unmapped} skew \
            {},{} = {variant} {} {parts} {micros}",
            task.dtype,
            task.output,
            task.k,
            flags(task.along_k),
            maps,
            task.skew[0],
            task.skew[1],
            flags(*copied),
        )
    }
}

fn flags(flags: [bool; 2]) -> &'static str {
    match flags {
        [false, false] => "00",
        [false, true] => "01",
        [true, false] => "10",
        [true, true] => "11",
    }
}

impl FromStr for Tuning {
    type Err = Error;

    /// Reads what was written.
    fn from_str(text: &str) -> Result<Tuning, Error> {
        parse(text).map_err(|fault| Error::new(Kind::Tuning(fault)))
    }
}

fn parse(text: &str) -> Result<Tuning, TuningFault> {
    let first = text.lines().next().and_then(|line| line.strip_prefix(HEAD));
    match first.and_then(|version| version.parse().ok()) {
        None => return Err(TuningFault::NotOne),
        Some(VERSION) => {}
        Some(version) => return Err(TuningFault::Version(version)),
    }
    let lines = text.lines().count();
    let damaged = |line: usize, what| TuningFault::Damaged { line, what };
    // The last line first: it says whether the others are what was written.
    let cut =
        || damaged(lines, "it does not end with `end`, a count and a checksum: it is cut off");
    let body_len = text.strip_suffix('\n').and_then(|text| text.rfind('\n')).ok_or_else(cut)? + 1;
    let (body, last) = text.split_at(body_len);
    let words: Vec<&str> = last.trim_end().split(' ').collect();
    let ["end", count, sum] = words[..] else { return Err(cut()) };
    if sum != format!("{:016x}", checksum(body)) {
        return Err(damaged(lines, "its checksum is not that of the lines before it"));
    }
    let mut body = body.lines().enumerate().skip(1);
    let mut fact = |name: &str| {
        let (at, line) = body.next().ok_or_else(cut)?;
        let value = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(" = "));
        Ok((at + 1, value.ok_or_else(|| damaged(at + 1, "a fact of the GPU was expected"))?))
    };
    let (_, gpu) = fact("gpu")?;
    let capability = version(fact("capability")?)?;
    let number =
        |(at, text): (usize, &str)| text.parse().map_err(|_| damaged(at, "a number was expected"));
    let multiprocessors = number(fact("multiprocessors")?)?;
    let clusters = number(fact("clusters")?)?;
    let driver = version(fact("driver")?)?;
    let (_, library) = fact("library")?;
    let (gpu, library) = (gpu.to_string(), library.to_string());
    let origin = Origin { gpu, capability, multiprocessors, clusters, driver, library };
    let (mut entries, mut seen) = (Vec::new(), HashSet::new());
    for (at, line) in body {
        let entry = entry(line).ok_or_else(|| damaged(at + 1, "no plan reads so"))?;
        if !seen.insert(entry.task) {
            return Err(damaged(at + 1, "there is a plan for that product already"));
        }
        entries.push(entry);
    }
    if count.parse() != Ok(entries.len()) {
        return Err(damaged(lines, "there are more or fewer plans than it says"));
    }
    Ok(Tuning { origin, entries })
}

fn version((line, text): (usize, &str)) -> Result<(u32, u32), TuningFault> {
    let numbers = text.split_once('.');
    let numbers = numbers.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    numbers.ok_or(TuningFault::Damaged { line, what: "a version as 9.0 was expected" })
}

fn entry(line: &str) -> Option<Entry> {
    let words: Vec<&str> = line.split(' ').collect();
    let [
        "plan",
        dtype,
        precision,
        "to",
        output,
        sizes,
        "along",
        along_k,
        "maps",
        maps,
        unmapped,
        "skew",
        skew,
        "=",
        variant,
        copied,
        parts,
        micros,
    ] = words[..]
    else {
        return None;
    };
    if !["yes", "rows", "no"].contains(&maps) {
        return None;
    }
    let sizes: Vec<usize> =
        sizes.split('x').map(|size| size.parse().ok()).collect::<Option<_>>()?;
    let [rows, cols, k] = sizes[..] else { return None };
    let flags = |text: &str| {
        let all = [[false, false], [false, true], [true, false], [true, true]];
        all.into_iter().find(|of| flags(*of) == text)
    };
    let task = Task {
        dtype: dtype.parse().ok()?,
        precision: PRECISIONS.into_iter().find(|(name, _)| *name == precision)?.1,
        shape: Shape::new(rows, cols),
        k,
        output: output.parse().ok()?,
        // Batches are not tuned.
        batch: 1,
        shared: [true; 2],
        splits: true,
        along_k: flags(along_k)?,
        maps: maps == "yes",
        // Without a batch, what has maps has those of its rows too.
        row_maps: ["yes", "rows"].contains(&maps),
        unmapped: match unmapped {
            "-" => None,
            of => Some(flags(of)?),
        },
        skew: skew.split_once(',').and_then(|(a, b)| Some([a.parse().ok()?, b.parse().ok()?]))?,
        rows: Rows::Free,
        whole: false,
        fused: None,
        reads_c: false,
    };
    let (parts, micros) = (parts.parse().ok()?, micros.parse().ok()?);
    let is_one = k > 0 && rows > 0 && cols > 0 && parts > 0 && f64::is_finite(micros);
    let copied = flags(copied)?;
    is_one.then(|| Entry { task, variant: variant.into(), copied, parts, micros })
}
