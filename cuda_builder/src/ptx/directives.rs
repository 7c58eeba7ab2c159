//! Launch bounds and cluster sizes: from the `//@kernel` lines that `#[kernel(...)]` leaves in
//! the module's assembly to the header of the entry, which no Rust code can write itself.

use std::ops::Range;

use super::{PtxProblem, headers, without_comments};

const MARK: &str = "//@kernel";

/// What one `//@kernel` line asks for.
#[derive(Debug, Default, PartialEq)]
struct Request {
    name: String,
    max_threads: Option<u32>,
    min_blocks: Option<u32>,
    cluster: Option<[u32; 3]>,
    /// Numbers of parameters and their alignments.
    aligned: Vec<(usize, u32)>,
}

/// Takes the lines `//@kernel NAME max_threads=N min_blocks=N cluster=X,Y,Z align=NUMBER:BYTES`
/// (absent keys are left out) from the text and writes `.maxntid N, 1, 1`, `.minnctapersm N`, and
/// `.explicitcluster` with `.reqnctapercluster X, Y, Z`, into the headers of those entries. `align`
/// raises the alignment of parameter NUMBER, from 0; there may be several.
///
/// # Errors
/// [`PtxProblem::KernelLine`] for a line that is not of this form, asks for nothing that a GPU
/// can do (a count of zero, more than 1024 threads), is the second one of its kernel, or names
/// an entry or a parameter that the text does not have.
pub fn apply_kernel_lines(ptx: &str) -> Result<String, PtxProblem> {
    let mut requests: Vec<(Request, &str)> = Vec::new();
    let mut rest = String::with_capacity(ptx.len());
    for line in ptx.split_inclusive('\n') {
        let Some(words) = line.trim().strip_prefix(MARK) else {
            rest.push_str(line);
            continue;
        };
        let request = parse(words).map_err(|reason| problem(line, reason))?;
        if requests.iter().any(|(other, _)| other.name == request.name) {
            return Err(problem(line, "this kernel has another such line".to_owned()));
        }
        requests.push((request, line));
    }
    let code = without_comments(&rest);
    let mut insertions = Vec::new();
    for (request, line) in &requests {
        let header = headers(&code).into_iter().find(|header| header.name == request.name);
        let Some(header) = header else {
            return Err(problem(line, "the text has no such entry".to_owned()));
        };
        let place = header.directives.start;
        insertions.push((place..place, directives(request)));
        for (number, bytes) in &request.aligned {
            let place = alignment(&code, header.params.clone(), *number)
                .ok_or_else(|| problem(line, format!("parameter {number} has no alignment")))?;
            let found: u32 = code[place.clone()].parse().unwrap_or(0);
            insertions.push((place, found.max(*bytes).to_string()));
        }
    }
    insertions.sort_by_key(|(place, _)| std::cmp::Reverse(place.start));
    for (place, text) in insertions {
        rest.replace_range(place, &text);
    }
    Ok(rest)
}

/// Where the number stands behind `.align` of a parameter of bytes: `.param .align 16 .b8 p[128]`.
fn alignment(code: &str, params: Range<usize>, number: usize) -> Option<Range<usize>> {
    let mut start = params.start;
    for param in code[params].split(',').take(number) {
        start += param.len() + 1;
    }
    let param = code.get(start..)?.split([',', ')']).next()?;
    let word = ".param .align ";
    let digits = param.find(word)? + word.len();
    let len = param[digits..].find(|c: char| !c.is_ascii_digit())?;
    let found = start + digits..start + digits + len;
    (len > 0).then_some(found)
}

fn problem(line: &str, reason: String) -> PtxProblem {
    PtxProblem::KernelLine { line: line.trim().to_owned(), reason }
}

fn parse(words: &str) -> Result<Request, String> {
    let mut words = words.split_whitespace();
    let name = words.next().ok_or("the kernel's name is missing")?;
    let mut request = Request { name: name.to_owned(), ..Request::default() };
    for word in words {
        let (key, value) = word.split_once('=').ok_or(format!("`{word}` is not `key=value`"))?;
        let number = |text: &str| match text.parse() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("`{text}` is not a number above zero")),
        };
        match key {
            "max_threads" => request.max_threads = Some(number(value)?),
            "min_blocks" => request.min_blocks = Some(number(value)?),
            "cluster" => {
                let sizes = value.split(',').map(number).collect::<Result<Vec<u32>, _>>()?;
                let sizes = sizes.try_into().map_err(|_| "a cluster has three sizes")?;
                request.cluster = Some(sizes);
            }
            "align" => {
                let (parameter, bytes) = value.split_once(':').ok_or("align is NUMBER:BYTES")?;
                let parameter =
                    parameter.parse().map_err(|_| format!("`{parameter}` is no number"))?;
                request.aligned.push((parameter, number(bytes)?));
            }
            _ => return Err(format!("unknown key `{key}`")),
        }
    }
    if request.max_threads.is_some_and(|threads| threads > 1024) {
        return Err("no GPU runs more than 1024 threads in a block".to_owned());
    }
    if request.min_blocks.is_some() && request.max_threads.is_none() {
        return Err("min_blocks needs max_threads beside it".to_owned());
    }
    Ok(request)
}

fn directives(request: &Request) -> String {
    let mut text = String::new();
    if let Some(threads) = request.max_threads {
        text += &format!("\n.maxntid {threads}, 1, 1");
    }
    if let Some(blocks) = request.min_blocks {
        text += &format!("\n.minnctapersm {blocks}");
    }
    if let Some([x, y, z]) = request.cluster {
        text += &format!("\n.explicitcluster\n.reqnctapercluster {x}, {y}, {z}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::entries;
    use super::*;

    fn module(lines: &str) -> String {
        format!(
            ".version 7.8\n.target sm_90\n{lines}\n\
             .visible .entry a(\n\t.param .u32 p\n)\n{{\n\tret;\n}}\n\
             .visible .entry b()\n{{\n\tret;\n}}\n"
        )
    }

    #[test]
    fn directives_reach_their_entry() {
        let text = module(
            "//@kernel b max_threads=128 min_blocks=2 cluster=2,1,1\n\t//@kernel a max_threads=256",
        );
        let done = apply_kernel_lines(&text).unwrap();
        assert!(!done.contains("@kernel"));
        assert!(done.contains(")\n.maxntid 256, 1, 1\n{"), "{done}");
        let entries = entries(&done);
        assert_eq!(entries[0].directives, [".maxntid 256, 1, 1"]);
        assert_eq!(
            entries[1].directives,
            [
                ".maxntid 128, 1, 1",
                ".minnctapersm 2",
                ".explicitcluster",
                ".reqnctapercluster 2, 1, 1"
            ]
        );
    }

    #[test]
    fn a_kernel_without_bounds_stays_as_it_is() {
        let text = module("//@kernel a");
        assert_eq!(apply_kernel_lines(&text).unwrap(), module("").replacen("\n\n", "\n", 1));
        assert_eq!(apply_kernel_lines(&module("")).unwrap(), module(""));
    }

    #[test]
    fn parameters_are_aligned() {
        let with = |line: &str| {
            format!(
                ".version 8.0\n.target sm_90a\n{line}.visible .entry a(\n\
                 \t.param .u64 .ptr .align 1 a_param_0,\n\
                 \t.param .align 16 .b8 a_param_1[128],\n\
                 \t.param .align 16 .b8 a_param_2[128]\n)\n{{\n\tret;\n}}\n"
            )
        };
        let done = apply_kernel_lines(&with("//@kernel a max_threads=32 align=1:64 align=2:8\n"));
        let expected = with("").replace(".align 16 .b8 a_param_1", ".align 64 .b8 a_param_1");
        assert_eq!(done.unwrap(), expected.replace(")\n{", ")\n.maxntid 32, 1, 1\n{"));
        for (line, part) in [
            ("//@kernel a align=0:64\n", "parameter 0 has no alignment"),
            ("//@kernel a align=3:64\n", "parameter 3 has no alignment"),
            ("//@kernel a align=1\n", "NUMBER:BYTES"),
            ("//@kernel a align=x:64\n", "`x` is no number"),
            ("//@kernel a align=1:0\n", "`0` is not"),
        ] {
            let error = apply_kernel_lines(&with(line)).unwrap_err().to_string();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn bad_lines_are_refused() {
        for (line, part) in [
            ("//@kernel", "name is missing"),
            ("//@kernel c max_threads=1", "no such entry"),
            ("//@kernel a max_threads=0", "`0` is not"),
            ("//@kernel a max_threads=x", "`x` is not"),
            ("//@kernel a max_threads=2048", "1024"),
            ("//@kernel a min_blocks=2", "max_threads beside it"),
            ("//@kernel a threads=2", "unknown key `threads`"),
            ("//@kernel a max_threads", "key=value"),
            ("//@kernel a cluster=2,1", "three sizes"),
            ("//@kernel a\n//@kernel a", "another such line"),
        ] {
            let error = apply_kernel_lines(&module(line)).unwrap_err().to_string();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
