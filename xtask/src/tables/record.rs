//! What the tables read of a record: the lines of the suite `ladder`.
//!
//! A record's own reader is in gemmite-bench, which would bring all of the benchmarks' dependencies
//! into each build of xtask.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use gemm_spec::DType;

/// A record file's ladder.
#[derive(Debug)]
pub struct Record {
    facts: Vec<(String, String)>,
    lines: Vec<Line>,
    /// M = N = K of its products.
    pub size: usize,
}

#[derive(Debug)]
struct Line {
    dtype: String,
    candidate: String,
    state: String,
    median_ms: Option<f64>,
}

/// What a record has of a candidate.
#[derive(Debug, PartialEq)]
pub enum Entry<'a> {
    /// No line.
    Absent,
    /// The median in milliseconds.
    Timed(f64),
    /// It has no time, for this reason.
    Untimed(&'a str),
}

impl Record {
    pub fn read(path: &Path) -> Result<Record> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the record {}", path.display()))?;
        Record::parse(&text).with_context(|| path.display().to_string())
    }

    pub fn parse(text: &str) -> Result<Record> {
        let facts = text.lines().map_while(|line| line.strip_prefix("# "));
        let facts = facts.filter_map(|line| line.split_once(": "));
        let facts = facts.map(|(key, value)| (key.to_owned(), value.trim().to_owned())).collect();
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        let head = reader.headers()?.clone();
        let column = |name: &str| {
            head.iter().position(|h| h == name).with_context(|| format!("no column {name}"))
        };
        let names = ["suite", "mode", "layout", "epilogue", "dtype", "candidate", "state"];
        let [suite, mode, layout, epilogue, dtype, candidate, state] = {
            let columns = names.iter().map(|name| column(name)).collect::<Result<Vec<_>>>()?;
            <[usize; 7]>::try_from(columns).expect("as many columns as names")
        };
        let (median, sizes) = (column("median_ms")?, [column("m")?, column("n")?, column("k")?]);
        let (mut lines, mut size) = (Vec::new(), None);
        for row in reader.records() {
            let row = row?;
            let plain = (&row[layout], &row[epilogue]) == ("nn", "none");
            if &row[suite] != "ladder" || &row[mode] != "burst" || !plain {
                continue;
            }
            let [m, n, k] = sizes.map(|column| row[column].parse::<usize>().ok());
            let this = m.context("m is no number")?;
            ensure!(
                m == n && n == k && size.is_none_or(|size| size == this),
                "not one square size"
            );
            size = Some(this);
            let median_ms = row[median].parse().ok().filter(|_| &row[state] == "timed");
            let [dtype, candidate, state] = [dtype, candidate, state].map(|at| row[at].to_owned());
            lines.push(Line { dtype, candidate, state, median_ms });
        }
        Ok(Record { facts, lines, size: size.context("it has no lines of the suite `ladder`")? })
    }

    /// The value of the first fact of that name.
    pub fn fact(&self, key: &str) -> Result<&str> {
        let fact = self.facts.iter().find(|(name, _)| name == key);
        Ok(&fact.with_context(|| format!("the record has no fact {key:?}"))?.1)
    }

    /// What it has of `candidate`.
    pub fn entry(&self, dtype: DType, candidate: &str) -> Entry<'_> {
        let mut lines = self.of(dtype);
        match lines.find(|line| line.candidate == candidate) {
            None => Entry::Absent,
            Some(line) => match line.median_ms {
                Some(median) => Entry::Timed(median),
                None => Entry::Untimed(&line.state),
            },
        }
    }

    /// The least time of the candidates that `is_one` accepts.
    pub fn fastest(&self, dtype: DType, is_one: impl Fn(&str) -> bool) -> Option<f64> {
        let times = self.of(dtype).filter(|line| is_one(&line.candidate));
        times.filter_map(|line| line.median_ms).min_by(f64::total_cmp)
    }

    fn of(&self, dtype: DType) -> impl Iterator<Item = &Line> {
        let name = dtype.to_string();
        self.lines.iter().filter(move |line| line.dtype == name)
    }
}
