//! The table of kernels with their times.

use anyhow::Result;
use gemm_spec::{DType, Kernel, KernelFamily, ThreadOrder};

use super::record::{Entry, Record};
use super::{first_instance, markdown};

/// The dtypes that have a column.
const COLUMNS: [DType; 4] = [DType::F32, DType::I32, DType::F64, DType::F16];
/// The dtypes of which nvcc builds the tutorials' kernels.
const NVCC: [DType; 3] = [DType::F32, DType::I32, DType::F64];

/// The table of `variants`, or of all with their ideas, and what its numbers mean. `link` leads to
/// the record.
pub fn table(record: &Record, link: &str, variants: Option<&[&str]>) -> Result<String> {
    let all: Vec<&str> = gemm_spec::variants().collect();
    let with_ideas = variants.is_none();
    let variants = variants.unwrap_or(&all);
    let mut rows = Vec::new();
    for variant in variants {
        let mut row = vec![format!("`{variant}`")];
        if with_ideas {
            row.push(idea(first_instance(variant)?));
        }
        row.extend(times(record, variant));
        row.push(over_nvcc(record, variant)?);
        rows.push(row);
    }
    let with_nvcc = rows.iter().any(|row| row.last().is_some_and(|cell| !cell.is_empty()));
    let mut cublas = vec!["cuBLAS".to_owned()];
    if with_ideas {
        cublas.push("the fastest that cuBLAS and cuBLASLt offer".into());
    }
    let time = |dtype| fastest_cublas(record, dtype).map_or("-".into(), milliseconds);
    cublas.extend(COLUMNS.map(time));
    cublas.push(String::new());
    rows.push(cublas);
    let mut head = vec!["kernel".to_owned()];
    head.extend(with_ideas.then(|| "idea".to_owned()));
    head.extend(COLUMNS.map(|dtype| format!("{dtype}, ms")));
    head.push("nvcc's time over ours".into());
    if !with_nvcc {
        head.pop();
        for row in &mut rows {
            row.pop();
        }
    }
    let mut text = markdown(&head, &rows);
    text += &format!("\n{}", caption(record, link, with_nvcc)?);
    Ok(text)
}

/// What the numbers mean, in lines of at most 150 columns.
fn caption(record: &Record, link: &str, with_nvcc: bool) -> Result<String> {
    let (size, device) = (record.size, record.fact("device")?);
    let mut words = format!(
        "Median times of a {size} x {size} x {size} product on {device}, {}; in brackets \
         cuBLAS's time over ours. ",
        record.fact("date")?
    );
    words += "Where - stands no kernel has the dtype. ";
    if with_nvcc {
        words += "The last column, for f32, i32 and f64, has the time of the same algorithm in \
                  CUDA C++, built by nvcc and run in alternation, over ours; of two C++ forms, \
                  both coalesced, the faster counts. ";
    }
    let mut text = wrapped(&words, 145);
    text += &format!("([record]({link}))");
    Ok(text)
}

/// `words` in lines of at most `width` columns, each with its end.
fn wrapped(words: &str, width: usize) -> String {
    let (mut text, mut column) = (String::new(), 0);
    for word in words.split_whitespace() {
        if column > 0 && column + 1 + word.len() > width {
            text.push('\n');
            column = 0;
        }
        if column > 0 {
            text.push(' ');
            column += 1;
        }
        text += word;
        column += word.len();
    }
    text.push('\n');
    text
}

/// The family's idea, and for its other variants what they have that the first has not.
fn idea(kernel: &Kernel) -> String {
    let family: Vec<&Kernel> =
        gemm_spec::kernels().filter(|other| other.family == kernel.family).collect();
    let is_first = family[0].variant == kernel.variant;
    let [rows, cols, _] = kernel.tiles.block;
    // Of one dtype: tiles may differ by dtype too.
    let same_dtype = family.iter().filter(|other| other.dtype == kernel.dtype);
    let sizes_differ = { same_dtype }.any(|other| other.tiles.block != kernel.tiles.block);
    let mut text = if is_first { kernel.family.idea() } else { "the same" }.to_owned();
    if sizes_differ {
        text += &format!(", {rows} x {cols}");
    }
    if kernel.order == ThreadOrder::AlongRows {
        text += ", `threadIdx.x` along the rows";
    }
    if COLUMNS.iter().all(|dtype| Kernel::find(kernel.variant, *dtype).is_none()) {
        text += &format!("; {} alone", without_column(kernel.variant));
    }
    text
}

/// What elements the entry points of a variant are called by, of one that has no column.
fn without_column(variant: &str) -> String {
    let instances = gemm_spec::kernels().filter(|kernel| kernel.variant == variant);
    let mut elements: Vec<_> = instances.filter_map(|of| of.name.rsplit('_').next()).collect();
    elements.dedup();
    elements.join(", ")
}

/// The times of a variant: "-" where the table of kernels has no instance.
fn times(record: &Record, variant: &str) -> Vec<String> {
    let instance = |dtype| Kernel::find(variant, dtype).is_some();
    let entries = COLUMNS.map(|dtype| record.entry(dtype, variant));
    let missing = entries.iter().all(|entry| *entry == Entry::Absent);
    let mut said = false;
    let mut cells = Vec::new();
    for (dtype, entry) in COLUMNS.into_iter().zip(entries) {
        cells.push(match entry {
            _ if !instance(dtype) => "-".to_owned(),
            Entry::Absent if missing && !said => {
                said = true;
                "not in this record".to_owned()
            }
            Entry::Absent => String::new(),
            Entry::Untimed(state) => state.to_owned(),
            Entry::Timed(time) => match fastest_cublas(record, dtype) {
                Some(best) => format!("{} ({})", milliseconds(time), share(best / time)),
                None => milliseconds(time),
            },
        });
    }
    cells
}

fn fastest_cublas(record: &Record, dtype: DType) -> Option<f64> {
    record.fastest(dtype, |candidate| candidate.starts_with("cublas"))
}

/// nvcc's time over ours for each dtype of [`NVCC`], where nvcc builds the kernel's algorithm.
fn over_nvcc(record: &Record, variant: &str) -> Result<String> {
    let kernel = first_instance(variant)?;
    let algorithm = match kernel.family {
        KernelFamily::Naive => "naive",
        KernelFamily::Tiled => "tiled",
        _ => return Ok(String::new()),
    };
    let ending = format!("_{algorithm}_{}", kernel.tiles.block[0]);
    let is_one = |name: &str| name.starts_with("nvcc_") && name.ends_with(&ending);
    let ratio = |dtype| match (record.fastest(dtype, is_one), record.entry(dtype, variant)) {
        (Some(theirs), Entry::Timed(ours)) => format!("{:.3}", theirs / ours),
        _ => "-".to_owned(),
    };
    Ok(NVCC.map(ratio).join(", "))
}

/// Three digits.
fn milliseconds(time: f64) -> String {
    match time {
        t if t >= 99.95 => format!("{t:.0}"),
        t if t >= 9.995 => format!("{t:.1}"),
        t if t >= 0.9995 => format!("{t:.2}"),
        t => format!("{t:.3}"),
    }
}

fn share(share: f64) -> String {
    if share >= 0.0995 { format!("{share:.2}") } else { format!("{share:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# device: GPU X\n# date: 2026-01-02\n\
        suite,dtype,layout,m,n,k,epilogue,candidate,mode,state,median_ms\n";

    fn line(dtype: &str, candidate: &str, state: &str, time: &str) -> String {
        format!("ladder,{dtype},nn,64,64,64,none,{candidate},burst,{state},{time}\n")
    }

    #[test]
    fn every_cell_says_what_is_known() {
        let text = [
            HEAD.to_owned(),
            "square,f32,nn,9,8,7,none,k02_tiled_16,burst,timed,77\n".to_owned(),
            line("f32", "k02_tiled_16", "timed", "16.0"),
            line("i32", "k02_tiled_16", "timed", "12.34"),
            line("f16", "k02_tiled_16", "refused", ""),
            line("f32", "cublas", "timed", "4.5"),
            line("f32", "cublaslt_best", "timed", "4.0"),
            line("i32", "cublas", "unsupported", ""),
            line("f32", "nvcc_twin_tiled_16", "timed", "8.0"),
            line("f32", "nvcc_tutorial_tiled_16", "timed", "9.0"),
            line("f32", "nvcc_tutorial_naive_16", "timed", "1.0"),
        ];
        let record = Record::parse(&text.concat()).unwrap();
        let variants = ["k02_tiled_16", "k09_async_copy"];
        let table = table(&record, "x.csv", Some(&variants)).unwrap();
        let lines: Vec<&str> = table.lines().collect();
        let row = "| `k02_tiled_16` | 16.0 (0.25) | 12.3 | | refused | 0.500, -, - |";
        assert_eq!(lines[2], row);
        assert_eq!(lines[3], "| `k09_async_copy` | not in this record | | | - | |");
        assert_eq!(lines[4], "| cuBLAS | 4.00 | - | - | - | |");
        assert!(table.contains("64 x 64 x 64 product on GPU X, 2026-01-02"), "{table}");
        assert!(table.ends_with("([record](x.csv))"), "{table}");
    }

    #[test]
    fn the_whole_table_has_every_variant_once_and_its_idea() {
        let record = Record::parse(&[HEAD, &line("f32", "x", "timed", "1")].concat()).unwrap();
        let table = table(&record, "x.csv", None).unwrap();
        for variant in gemm_spec::variants() {
            let rows = table.lines().filter(|line| line.starts_with(&format!("| `{variant}` |")));
            assert_eq!(rows.count(), 1, "{variant}");
        }
        let naive = gemm_spec::KernelFamily::Naive.idea();
        assert!(table.contains(&format!("| `k01_naive` | {naive} |")), "{table}");
        assert!(table.contains("| the same, 16 x 16, `threadIdx.x` along the rows |"), "{table}");
        assert!(table.lines().all(|line| line.chars().count() <= 150), "{table}");
    }

    #[test]
    fn other_files_are_no_records() {
        assert!(Record::parse("a,b\n1,2\n").is_err());
        assert!(Record::parse(HEAD).is_err(), "no ladder");
    }
}
