//! `gemmite report`: a record of benchmarks as a page, and as pictures.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use gemmite_bench::record::Record;
use gemmite_bench::report;

use crate::args::ReportArgs;
use crate::output::Output;

/// Writes the page beside the record or where the options say.
pub fn run(args: &ReportArgs, out: &mut impl Write) -> Result<()> {
    let folders = args.svg.iter().flat_map(|folder| folder.ancestors());
    let missing: Vec<&Path> = folders.take_while(|folder| !folder.exists()).collect();
    let result = make(args, out);
    if result.is_err() {
        // What was made for nothing goes again; a folder with files in it stays.
        missing.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    }
    result
}

fn make(args: &ReportArgs, out: &mut impl Write) -> Result<()> {
    let path = match &args.record {
        Some(path) => path.clone(),
        None => newest(&args.records)?,
    };
    let record = Record::read(&path)?;
    let page = args.output.clone().unwrap_or_else(|| path.with_extension("html"));
    if let Some(folder) = &args.svg {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    write(&page, &report::html(&record)?)?;
    writeln!(out, "{} from {}", page.display(), path.display())?;
    let Some(folder) = &args.svg else { return Ok(()) };
    for (name, svg) in report::svgs(&record)? {
        write(&folder.join(&name), &svg)?;
        writeln!(out, "{}", folder.join(name).display())?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    // A report is made from its record and replaces an older one, and nothing else.
    let mut head = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(5).read_to_end(&mut head));
    let is_read = read.or_else(|error| match error.kind() {
        ErrorKind::NotFound => Ok(0),
        _ => Err(error),
    });
    is_read.with_context(|| format!("cannot write {}", path.display()))?;
    let is_report = [&b""[..], b"<!doc", b"<svg "].contains(&&*head.to_ascii_lowercase());
    ensure!(is_report, "cannot write {}: it is there and is no report", path.display());
    Output::new(path, true)?.write_with(|writer| Ok(writer.write_all(text.as_bytes())?))
}

/// The record to take where none is named, of all devices under `folder`: of those of the latest
/// date the one with the most rows, since a run that was cut off, or that measured some suites
/// alone, tells less; of several with as many rows the one that started last.
fn newest(folder: &Path) -> Result<PathBuf> {
    let mut records: Vec<PathBuf> = Vec::new();
    let unreadable = || format!("cannot read the records in {}", folder.display());
    for device in fs::read_dir(folder).with_context(unreadable)? {
        let device = device?.path();
        if device.is_dir() {
            let files = fs::read_dir(&device)?.map(|file| Ok(file?.path()));
            records.extend(files.collect::<Result<Vec<_>>>()?);
        }
    }
    let rank = |path: PathBuf| {
        // Other CSV files, of other kinds of measurement, are not records of the harness.
        let csv = path.extension().is_some_and(|extension| extension == "csv");
        let record = if csv { Record::read(&path).ok()? } else { return None };
        // A date is YYYY-MM-DD and a start HH:MM UTC, so that their order is that of the texts.
        let fact = |key| record.fact(key).unwrap_or_default().to_owned();
        Some(((fact("date"), record.rows().len(), fact("started")), path))
    };
    match records.into_iter().filter_map(rank).max() {
        Some((_, path)) => Ok(path),
        None => bail!("{} has no record: `cargo xtask bench` makes one", folder.display()),
    }
}
