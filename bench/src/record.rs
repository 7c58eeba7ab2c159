//! Record files: what was measured, on what, from which commit.
//!
//! A record is a CSV file whose first lines are comments, `# key: value`, with the environment and
//! the method; [`Line`] documents the columns. It holds every candidate of every row, also those
//! that have no time, with the reason.

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A record file's contents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The comment lines on top, in order: what and how was measured. A key may stand there twice.
    pub facts: Vec<(String, String)>,
    /// The measurements, rows in the order of the suites, candidates of a row side by side.
    pub lines: Vec<Line>,
}

/// One candidate on one row of a suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The suite that has the row.
    pub suite: String,
    /// Element type of A, B and C.
    pub dtype: String,
    /// `n` as it is or `t` transposed, for A and B, which are row-major: `nn`, `nt`, `tn`, `tt`.
    pub layout: String,
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Terms of each sum.
    pub k: usize,
    /// Independent products.
    pub batch: usize,
    /// Elements from one stored row of A to the next.
    pub lda: usize,
    /// The same for B.
    pub ldb: usize,
    /// The same for C.
    pub ldc: usize,
    /// `none`, or `alpha=X`, `beta=Y`, with a space between.
    pub epilogue: String,
    /// A kernel of ours, `gemmite` for the library's own choice, or a peer.
    pub candidate: String,
    /// Whose the candidate is.
    pub side: Side,
    /// How it was timed.
    pub mode: Mode,
    /// What became of it.
    pub state: State,
    /// Median of the samples, milliseconds for one product (of the whole batch).
    pub median_ms: Option<f64>,
    /// The time that a tenth of the samples stayed at or under.
    pub p10_ms: Option<f64>,
    /// The time that nine tenths of the samples stayed at or under.
    pub p90_ms: Option<f64>,
    /// Samples taken.
    pub rounds: Option<usize>,
    /// Products in each sample.
    pub runs: Option<u32>,
    /// 2 * m * n * k * batch over the median, 10^12 a second.
    pub tflops: Option<f64>,
    /// The fewest bytes that the product can move (each operand once) over the median, 10^9 a
    /// second.
    pub gbps: Option<f64>,
    /// Largest error of the checked elements as a fraction of its bound (docs/numerics.md): above 1
    /// for a candidate that was refused for it.
    pub error_over_bound: Option<f64>,
    /// Lowest clock of the multiprocessors seen while the row was timed, MHz.
    pub sm_mhz: Option<u32>,
    /// Highest temperature seen then, degrees Celsius.
    pub temp_c: Option<u32>,
    /// Highest power draw seen then, W.
    pub power_w: Option<u32>,
    /// Reasons that NVML gave then for clocks under their maximum, joined by `+`.
    pub throttle: String,
    /// Which kernel was chosen, or why there is no time.
    pub note: String,
}

/// Whose a candidate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// This project's.
    Ours,
    /// Another's.
    Peer,
}

/// How samples were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One sample of each candidate in turn, the GPU idle in between.
    Burst,
    /// Each candidate in turn without a pause for a second or more.
    Sustained,
    /// As in a burst, the runs of a sample repeated by a CUDA graph.
    Graph,
}

impl Mode {
    /// `, sustained` or another word for the mode, nothing for the usual one.
    pub fn suffix(self) -> &'static str {
        match self {
            Mode::Burst => "",
            Mode::Sustained => ", sustained",
            Mode::Graph => ", as graphs",
        }
    }
}

/// What became of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Verified and timed.
    Timed,
    /// Its library is not on this machine.
    Missing,
    /// It does not compute this row.
    Unsupported,
    /// Its product is wrong, so it got no time.
    Refused,
    /// It gave up with an error.
    Failed,
}

/// What is multiplied, apart from who does it: lines with the same row compete.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowKey {
    /// The suite.
    pub suite: String,
    /// dtype, layout, sizes, leading dimensions and epilogue, as a reader would write them.
    pub problem: String,
    /// How it was timed.
    pub mode: Mode,
}

impl Line {
    /// The row that the line belongs to.
    pub fn row(&self) -> RowKey {
        RowKey { suite: self.suite.clone(), problem: self.problem(), mode: self.mode }
    }

    /// dtype, layout and sizes as a reader would write them: `bf16 nt 16x4096x4096`; then what is
    /// out of the ordinary.
    pub fn problem(&self) -> String {
        let Line { dtype, layout, m, n, k, batch, .. } = self;
        let mut text = format!("{dtype} {layout} {m}x{n}x{k}");
        if *batch != 1 {
            let _ = write!(text, " batch {batch}");
        }
        let (a_transposed, b_transposed) = (layout.starts_with('t'), layout.ends_with('t'));
        let tight = [if a_transposed { *m } else { *k }, if b_transposed { *k } else { *n }, *n];
        if [self.lda, self.ldb, self.ldc] != tight {
            let _ = write!(text, " ld {} {} {}", self.lda, self.ldb, self.ldc);
        }
        if self.epilogue != "none" {
            let _ = write!(text, " {}", self.epilogue);
        }
        text
    }

    /// The [`spread`](crate::timing::spread) of the line's samples.
    pub fn spread(&self) -> Option<f64> {
        Some(crate::timing::spread(self.p10_ms?, self.median_ms?, self.p90_ms?))
    }
}

impl Record {
    /// The value of the first fact of that name.
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.facts.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Whether it was measured on a GPU: the floor of the clock between two events is a fact there.
    pub fn on_gpu(&self) -> bool {
        self.fact("timer_floor_us").is_some()
    }

    /// The lines of each row, in the file's order.
    pub fn rows(&self) -> Vec<(RowKey, Vec<&Line>)> {
        let mut rows: Vec<(RowKey, Vec<&Line>)> = Vec::new();
        for line in &self.lines {
            let key = line.row();
            match rows.iter_mut().find(|(known, _)| *known == key) {
                Some((_, lines)) => lines.push(line),
                None => rows.push((key, vec![line])),
            }
        }
        rows
    }

    /// The file's text.
    pub fn to_csv(&self) -> Result<String> {
        let mut text = String::new();
        for (key, value) in &self.facts {
            ensure!(!key.contains([':', '\n']), "{key}: no name of a fact");
            // What compilers and paths say may be several lines.
            let _ = writeln!(text, "# {key}: {}", value.replace(['\n', '\r'], " "));
        }
        let mut writer = csv::Writer::from_writer(Vec::new());
        for line in &self.lines {
            writer.serialize(line)?;
        }
        text.push_str(std::str::from_utf8(&writer.into_inner()?)?);
        Ok(text)
    }

    /// Reads a file's text.
    pub fn from_csv(text: &str) -> Result<Record> {
        let mut record = Record::default();
        let mut rest = text;
        while let Some(line) = rest.strip_prefix("# ") {
            let (line, after) = line.split_once('\n').unwrap_or((line, ""));
            let (key, value) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
            record.facts.push((key.to_owned(), value.trim_end().to_owned()));
            rest = after;
        }
        let mut reader = csv::Reader::from_reader(rest.as_bytes());
        let is_ours = reader.headers()?.iter().any(|name| name == "candidate");
        // One that was begun, and has no row yet, has no header either.
        ensure!(is_ours || rest.is_empty() && !record.facts.is_empty(), "it has no candidates");
        for line in reader.deserialize() {
            record.lines.push(line?);
        }
        Ok(record)
    }

    /// Reads the record at `path`.
    pub fn read(path: &Path) -> Result<Record> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Record::from_csv(&text).with_context(|| {
            format!("{} is not a record of `cargo xtask bench`, or an older one", path.display())
        })
    }

    /// Writes the record over the one at `path`, which is whole at any time.
    pub fn write_over(&self, path: &Path) -> Result<()> {
        let unwritten = || format!("cannot write {}", path.display());
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = new_file(folder)?;
        file.write_all(self.to_csv()?.as_bytes()).with_context(unwritten)?;
        file.persist(path).with_context(unwritten)?;
        Ok(())
    }

    /// Writes the record to `<folder>/<device>/<date>-<commit>.csv`, with a number behind the
    /// commit where that name is taken, and tells the path.
    pub fn write_new(&self, folder: &Path) -> Result<PathBuf> {
        let fact = |key| self.fact(key).with_context(|| format!("the record has no fact {key:?}"));
        let device = fact("device")?.to_lowercase();
        let device: Vec<&str> =
            device.split(|c: char| !c.is_ascii_alphanumeric()).filter(|s| !s.is_empty()).collect();
        let folder = folder.join(device.join("-"));
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let stem = format!("{}-{}", fact("date")?, fact("commit")?);
        // Whole, or not there: it gets its name when all of it is written.
        let mut file = new_file(&folder)?;
        let unwritten = || format!("cannot write a record in {}", folder.display());
        file.write_all(self.to_csv()?.as_bytes()).with_context(unwritten)?;
        for number in 1..1000 {
            let suffix = if number == 1 { String::new() } else { format!("-{number}") };
            let path = folder.join(format!("{stem}{suffix}.csv"));
            match file.persist_noclobber(&path) {
                Ok(_) => return Ok(path),
                Err(failed) if failed.error.kind() == std::io::ErrorKind::AlreadyExists => {
                    file = failed.file;
                }
                Err(failed) => {
                    return Err(failed.error)
                        .with_context(|| format!("cannot write {}", path.display()));
                }
            }
        }
        bail!("{} has a thousand records of {stem}", folder.display())
    }
}

/// Where records are if nobody says it: where the environment does, as `cargo xtask` has it for
/// whoever stands in another folder than the checkout's.
pub fn usual_folder() -> PathBuf {
    std::env::var_os("GEMMITE_RECORDS").map_or_else(|| "bench/record".into(), PathBuf::from)
}

/// A file without its name yet, with the permissions of any new file.
fn new_file(folder: &Path) -> Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".gemmite-").suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let file = builder.tempfile_in(folder);
    file.with_context(|| format!("cannot write in {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line that was timed.
    fn line() -> Line {
        Line {
            suite: "square".into(),
            dtype: "bf16".into(),
            layout: "nt".into(),
            m: 3,
            n: 4,
            k: 5,
            batch: 1,
            lda: 5,
            ldb: 5,
            ldc: 4,
            epilogue: "none".into(),
            candidate: "gemmite".into(),
            side: Side::Ours,
            mode: Mode::Burst,
            state: State::Timed,
            median_ms: Some(2.0),
            p10_ms: Some(1.9),
            p90_ms: Some(2.3),
            rounds: Some(30),
            runs: Some(1),
            tflops: Some(0.1),
            gbps: Some(0.5),
            error_over_bound: Some(0.25),
            sm_mhz: Some(1980),
            temp_c: Some(40),
            power_w: Some(300),
            throttle: String::new(),
            note: "k02_tiled_16, \"by rule\"".into(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let missing =
            Line { state: State::Missing, median_ms: None, candidate: "torch".into(), ..line() };
        let facts = [("device", "NVIDIA X"), ("method", "a: b"), ("method", "c")];
        let facts = facts.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        let record = Record { facts, lines: vec![line(), missing] };
        let text = record.to_csv().unwrap();
        assert_eq!(Record::from_csv(&text).unwrap(), record);
        assert_eq!(Record::from_csv(&text.replace('\n', "\r\n")).unwrap(), record);
        assert_eq!(record.rows().len(), 1);
        assert_eq!(record.fact("method"), Some("a: b"));
        assert!(Record::from_csv("candidate,dtype\nx,f32\n").is_err());
    }

    #[test]
    fn problems_say_what_is_unusual() {
        assert_eq!(line().problem(), "bf16 nt 3x4x5");
        let odd = Line { batch: 2, lda: 7, epilogue: "alpha=2 beta=1".into(), ..line() };
        assert_eq!(odd.problem(), "bf16 nt 3x4x5 batch 2 ld 7 5 4 alpha=2 beta=1");
        assert!((line().spread().unwrap() - 0.1).abs() < 1e-12);
    }

    #[test]
    fn a_record_never_replaces_another() {
        let folder = tempfile::tempdir().unwrap();
        let facts = [("device", "NVIDIA H100 80GB"), ("date", "2026-01-02"), ("commit", "abc")];
        let facts = facts.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        let record = Record { facts, lines: vec![line()] };
        let path = |name: &str| folder.path().join("nvidia-h100-80gb").join(name);
        assert_eq!(record.write_new(folder.path()).unwrap(), path("2026-01-02-abc.csv"));
        assert_eq!(record.write_new(folder.path()).unwrap(), path("2026-01-02-abc-2.csv"));
        assert_eq!(Record::read(&path("2026-01-02-abc-2.csv")).unwrap(), record);
        // And nothing else is left.
        assert_eq!(std::fs::read_dir(path("")).unwrap().count(), 2);
    }
}
