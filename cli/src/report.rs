//! `gemmite report`: a record of benchmarks as a page, and as pictures.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use gemmite_bench::record::Record;
use gemmite_bench::report;

use crate::args::ReportArgs;
use crate::output::Output;

/// Writes the page beside the record or where the options say.
pub fn run(args: &ReportArgs, out: &mut impl Write) -> Result<()> {
    let path = match &args.record {
        Some(path) => path.clone(),
        None => newest(&args.records)?,
    };
    let record = Record::read(&path)?;
    let page = args.output.clone().unwrap_or_else(|| path.with_extension("html"));
    write(&page, &report::html(&record)?)?;
    writeln!(out, "{} from {}", page.display(), path.display())?;
    let Some(folder) = &args.svg else { return Ok(()) };
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, svg) in report::svgs(&record)? {
        write(&folder.join(&name), &svg)?;
        writeln!(out, "{}", folder.join(name).display())?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    // A report is made from its record and replaces an older one of the same record.
    Output::new(path, true)?.write_with(|writer| Ok(writer.write_all(text.as_bytes())?))
}

/// The last record by its name, which starts with the date, of all devices under `folder`.
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
    // Other CSV files, of other kinds of measurement, are not records of the harness.
    records
        .retain(|path| path.extension().is_some_and(|e| e == "csv") && Record::read(path).is_ok());
    let newest = records.into_iter().max_by(|a, b| a.file_name().cmp(&b.file_name()));
    match newest {
        Some(path) => Ok(path),
        None => bail!("{} has no record: `cargo xtask bench` makes one", folder.display()),
    }
}
