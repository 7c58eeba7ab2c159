//! The report of a made-up record, as text and in a browser.

use anyhow::{Context, Result, ensure};
use gemmite_bench::record::{Line, Record, Side, State};
use gemmite_bench::report;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The record in tests/data.
fn fixture() -> Record {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/record.csv");
    Record::read(&path).unwrap()
}

/// The fixture with the lines that `keep` takes.
fn only(keep: impl Fn(&Line) -> bool) -> Record {
    let mut record = fixture();
    record.lines.retain(keep);
    record
}

/// A record as full as a run on a GPU makes it: every peer on every row, all kernels and nvcc's on
/// the ladder, peers refused for the same reason.
fn crowded() -> Record {
    const PEERS: [&str; 5] = ["cublaslt_first", "cublaslt_best", "cublas", "torch", "triton"];
    const SHAPES: [&str; 4] = ["naive_16", "tiled_8", "tiled_16", "tiled_32"];
    let fixture = fixture();
    let ours = |line: &&Line| line.candidate == "gemmite" && line.state == State::Timed;
    let mut record = Record { facts: fixture.facts.clone(), lines: Vec::new() };
    let mut add = |line: &Line, candidate: &str, side: Side, speed: f64| {
        let scaled = |ms: Option<f64>| ms.map(|ms| ms / speed);
        record.lines.push(Line {
            candidate: candidate.into(),
            side,
            median_ms: scaled(line.median_ms),
            p10_ms: scaled(line.p10_ms),
            p90_ms: scaled(line.p90_ms),
            tflops: line.tflops.map(|rate| rate * speed),
            ..line.clone()
        });
    };
    for line in fixture.lines.iter().filter(ours).filter(|line| !line.suite.contains('<')) {
        add(line, "gemmite", Side::Ours, 1.0);
        let faster = [1.0, 1.02, 0.505, 2.0, 12.0];
        PEERS.iter().zip(faster).for_each(|(peer, speed)| add(line, peer, Side::Peer, speed));
    }
    for (dtype, fastest) in [("f32", 6.0), ("bf16", 90.0)] {
        let mut line = fixture.lines.iter().find(ours).unwrap().clone();
        (line.suite, line.dtype) = ("ladder".into(), dtype.into());
        add(&line, "gemmite", Side::Ours, 1.0);
        let steps = (1..=13).map(|step| format!("k{step:02}_an_idea_of_its_own"));
        let variants = steps.chain(gemm_spec::variants().map(str::to_owned));
        variants.for_each(|name| add(&line, &name, Side::Ours, 1.0 + name.len() as f64 / 20.0));
        PEERS.iter().for_each(|peer| add(&line, peer, Side::Peer, fastest));
        for shape in SHAPES {
            add(&line, &format!("nvcc_tutorial_{shape}"), Side::Peer, 1.0);
            add(&line, &format!("nvcc_twin_{shape}"), Side::Peer, 1.01);
        }
    }
    let mut refused = record.lines[0].clone();
    (refused.suite, refused.state, refused.side) = ("odd".into(), State::Refused, Side::Peer);
    (refused.median_ms, refused.error_over_bound) = (None, Some(5.761));
    refused.note = "41426 of 526845 elements of a 1023x1023 product of bf16 (k = 1023) are wrong; \
                    the worst, at (922, 396): expected -0.06476170709356666, got -0.3125, off by \
                    2.477e-1, bound 4.301e-2 (5.761 times the bound)"
        .into();
    for peer in PEERS {
        record.lines.push(Line { candidate: peer.into(), ..refused.clone() });
    }
    record
}

/// Checks what is true of every page and drawing: closed elements, nothing loaded, no script, no
/// number that is none.
fn check(name: &str, text: &str) {
    let addresses = text.replace("http://www.w3.org/2000/svg", "");
    for wrong in ["http:", "https:", "<script", "<link", "@import", "url(", " src="] {
        assert!(!addresses.contains(wrong), "{name}: {wrong}");
    }
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    assert!(!words.into_iter().any(|word| ["NaN", "inf"].contains(&word)), "{name}: no number");
    let mut open = Vec::new();
    for piece in text.split('<').skip(1) {
        let tag = piece.split(['>', ' ', '\n']).next().unwrap();
        match tag.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed), "{name}: </{closed}>"),
            None if ["!DOCTYPE", "meta", "br", "wbr"].contains(&tag) => {}
            None => open.push(tag),
        }
    }
    assert_eq!(open, Vec::<&str>::new(), "{name}: never closed");
}

#[test]
fn the_page_has_every_section() {
    let page = report::html(&fixture()).unwrap();
    check("page", &page);
    for section in ["what", "losses", "peers", "sizes", "roofline", "ladder", "all"] {
        assert_eq!(page.matches(&format!("<section id=\"{section}\"")).count(), 1, "{section}");
    }
    let losses = page.find("id=\"losses\"").unwrap();
    assert!(losses < page.find("id=\"peers\"").unwrap(), "losses come first");
    for text in [
        "SYNTHETIC",
        "cargo xtask bench",
        "cutlass: looked for in PATH",
        "triton, missing on 8 rows: no module named triton",
        "Refused: the product misses the error bound",
        "2 of ours, 0 of peers.",
        "Failed: gave up with an error",
        "got 0.0, expected &lt;12.4&gt;",
        "&lt;b&gt;&amp;&quot;peer&quot;",
        "Suite a suite &amp; its &lt;name&gt;",
        "f32 nt 128x128x64 batch 512",
        "bf16 nn 4096x4096x4096, sustained",
        "A peer has a time and we have none",
        "(within spread)",
        "Not recorded: ",
        "best rate in this record",
        "some text, to see that two methods are both there",
        "gemmite</b>, refused at 3.70 times the bound: f32 nn 7x7x7, suite odd",
        " more</summary>",
    ] {
        let there = page.contains(text);
        // The fixture has every fact that is looked for.
        assert_eq!(there, text != "Not recorded: ", "{text}");
    }
}

/// The text from the first `from` to the `to` after it.
fn between<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = page.split_once(from).unwrap();
    rest.split_once(to).unwrap().0
}

#[test]
fn many_peers_and_kernels_stay_readable() {
    let page = report::html(&crowded()).unwrap();
    check("page", &page);
    let refused = between(&page, "class=\"alarm\"", "</div>");
    assert!(!refused.contains("<table"), "a table has no room for reasons");
    let together =
        "cublaslt_first, cublaslt_best, cublas, torch, triton</b>, refused at 5.76 times";
    assert!(refused.contains(together) && refused.matches("<li>").count() == 1, "{refused}");
    let summary = "aria-label=\"Summary against each peer\"";
    let peers = between(&page, summary, "</table>");
    assert!(peers.contains("torch") && !peers.contains("nvcc"), "{peers}");
    assert_eq!(peers.matches("<tr>").count(), 1 + 6, "a row for each suite: {peers}");
    assert!(!page.contains("<h3>Suite ladder</h3>"), "the ladder has a section of its own");
    // Where there is nothing but the ladder, its peers go down the page.
    let mut ladder = crowded();
    ladder.lines.retain(|line| line.suite == "ladder");
    let page = report::html(&ladder).unwrap();
    let peers = between(&page, summary, "</table>");
    assert_eq!(peers.matches("<tr>").count(), 1 + 5 + 8, "a row for each peer: {peers}");
}

#[test]
fn figures_stand_alone() {
    let figures = report::svgs(&fixture()).unwrap();
    let mut names: Vec<&str> = figures.iter().map(|(name, _)| name.as_str()).collect();
    for (name, text) in &figures {
        check(name, text);
        assert!(
            text.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\""),
            "{name}"
        );
        assert!(text.contains("<title>") && text.contains("prefers-color-scheme: dark"), "{name}");
        assert!(name.bytes().all(|c| c.is_ascii_alphanumeric() || b"-.".contains(&c)), "{name}");
    }
    for name in ["ratio.svg", "square-f32-nn.svg", "roofline-bf16.svg"] {
        assert!(names.contains(&name), "{names:?}");
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), figures.len());
}

#[test]
fn records_that_lack_things_have_a_page() {
    let untimed = only(|line| line.state != State::Timed);
    let mut broken = fixture();
    for line in &mut broken.lines {
        (line.median_ms, line.tflops, line.gbps) = (Some(f64::NAN), Some(f64::INFINITY), Some(0.0));
    }
    let mut tiny = only(|line| line.suite == "llm");
    tiny.facts.clear();
    for line in &mut tiny.lines {
        (line.m, line.n, line.k, line.median_ms) = (0, 0, 0, Some(0.001));
    }
    let records = [
        ("no lines", Record::default()),
        ("facts alone", only(|_| false)),
        ("peers alone", only(|line| line.side == Side::Peer)),
        ("ours alone", only(|line| line.side == Side::Ours)),
        ("no times", untimed),
        ("times that are no numbers", broken),
        ("no work and no facts", tiny),
        ("one row", only(|line| line.suite == "batched")),
    ];
    for (name, record) in records {
        check(name, &report::html(&record).unwrap());
        for (file, text) in report::svgs(&record).unwrap() {
            check(&format!("{name}, {file}"), &text);
        }
    }
    let page = report::html(&Record::default()).unwrap();
    assert!(page.contains("No peer has a time") && page.contains("Not recorded: device"));
}

/// The browser, if there is one.
fn browser() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("GEMMITE_BROWSER") {
        return Some(path.into());
    }
    let folders = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let paths = std::env::split_paths(&folders).flat_map(|folder| names.map(|n| folder.join(n)));
    paths.into_iter().find(|path| path.is_file())
}

/// A page that measures others in frames: reports, unfolded, as wide as a phone and as a desk's
/// screen, or as they are printed on narrow and wide sheets, and each figure.
const MEASURE: &str = include_str!("data/measure.html");

/// What the browser says about the page at `path`: its document after the scripts ran.
fn dump(browser: &Path, folder: &Path, path: &Path) -> Result<String> {
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        // As on a phone, where they take no room.
        .arg("--hide-scrollbars")
        .args(["--allow-file-access-from-files", "--virtual-time-budget=60000", "--dump-dom"])
        .arg(profile)
        .arg(format!("file://{}", path.display()))
        .output()
        .with_context(|| format!("cannot run {}", browser.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{}: {}", output.status, text);
    Ok(text)
}

#[test]
fn a_browser_shows_it_whole() -> Result<()> {
    let Some(browser) = browser() else {
        println!("skipped (no browser): GEMMITE_BROWSER or a chromium in PATH would look at it");
        ensure!(std::env::var_os("GEMMITE_REQUIRE_BROWSER").is_none(), "no browser");
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let mut files = Vec::new();
    for (name, record) in [("fixture", fixture()), ("crowded", crowded())] {
        let page = format!("{name}.html");
        std::fs::write(folder.path().join(&page), report::html(&record)?)?;
        // A phone, a desk's screen; upright and lying sheets of paper, less their margins.
        for (width, print) in [(360, false), (1280, false), (717, true), (979, true)] {
            files.push((page.clone(), width, print));
        }
        for (figure, text) in report::svgs(&record)? {
            let file = format!("{name}-{figure}");
            std::fs::write(folder.path().join(&file), text)?;
            files.push((file, 400, false));
        }
    }
    let wrapper = folder.path().join("measure.html");
    std::fs::write(&wrapper, MEASURE.replace("FILES", &serde_json::to_string(&files)?))?;
    let page = dump(&browser, folder.path(), &wrapper)?;
    let result =
        page.split_once("<pre id=\"result\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let (result, _) = result.with_context(|| format!("the page measured nothing: {page}"))?;
    let result = result.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let results: Vec<serde_json::Value> =
        serde_json::from_str(&result).with_context(|| format!("the measurement ended: {page}"))?;
    ensure!(results.len() == files.len(), "not all were measured: {result}");
    for measured in &results {
        let drawings = measured["drawings"].as_u64().unwrap_or(0);
        let page = measured["file"].as_str().is_some_and(|file| file.ends_with(".html"));
        ensure!(drawings >= if page { 10 } else { 1 }, "drawings are missing: {measured}");
        ensure!(measured["found"] == serde_json::json!([]), "{measured:#}");
    }
    Ok(())
}
