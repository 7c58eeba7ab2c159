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
            None if ["!DOCTYPE", "meta"].contains(&tag) => {}
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
        " more</summary>",
    ] {
        let there = page.contains(text);
        // The fixture has every fact that is looked for.
        assert_eq!(there, text != "Not recorded: ", "{text}");
    }
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

/// A page that measures others in frames: the report, unfolded, as wide as a phone and as a desk's
/// screen, and each figure.
///
/// For each it counts what no reader should see: a page that scrolls sideways, drawn parts outside
/// their drawing, texts on top of each other, texts under 9 pixels, documents that are no XML.
const MEASURE: &str = r#"<!DOCTYPE html><meta charset="utf-8"><body>
<pre id="result"></pre>
<script>
const files = FILES;
function measure(frame) {
  const page = frame.contentDocument, root = page.documentElement, found = [];
  for (const details of page.querySelectorAll('details')) details.open = true;
  if (page.querySelector('parsererror')) found.push('not well-formed');
  if (page.body && root.scrollWidth > root.clientWidth)
    found.push(`scrolls sideways: ${root.scrollWidth} of ${root.clientWidth}`);
  const drawings = [...page.querySelectorAll('svg')];
  for (const drawing of drawings) {
    const frame = drawing.getBoundingClientRect();
    const name = drawing.getAttribute('aria-label').slice(0, 60);
    for (const part of drawing.querySelectorAll('text, rect, circle, polygon, polyline, line')) {
      const box = part.getBoundingClientRect();
      if (box.left < frame.left - 1 || box.right > frame.right + 1 ||
          box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
        found.push(`${name}: ${part.outerHTML.slice(0, 90)} sticks out`);
    }
    const texts = [...drawing.querySelectorAll('text')].filter(text => text.textContent);
    const scale = frame.width / drawing.viewBox.baseVal.width;
    const boxes = texts.map(text => text.getBoundingClientRect());
    texts.forEach((text, i) => {
      const size = parseFloat(page.defaultView.getComputedStyle(text).fontSize) * scale;
      if (size < 9) found.push(`${name}: ${text.textContent} has ${size} pixels`);
      for (let j = 0; j < i; j++) {
        // Boxes have room above and below the letters.
        if (boxes[i].left < boxes[j].right - 1 && boxes[j].left < boxes[i].right - 1 &&
            boxes[i].top < boxes[j].bottom - 4 && boxes[j].top < boxes[i].bottom - 4)
          found.push(`${name}: "${text.textContent}" on "${texts[j].textContent}"`);
      }
    });
  }
  return {drawings: drawings.length, found};
}
const results = [];
function next() {
  if (results.length == files.length) {
    document.getElementById('result').textContent = JSON.stringify(results);
    return;
  }
  const [file, width] = files[results.length];
  const frame = document.createElement('iframe');
  frame.width = width; frame.height = 800; frame.src = file;
  frame.onload = () => {
    results.push({file, width, ...measure(frame)}); frame.remove(); next();
  };
  document.body.append(frame);
}
next();
</script>"#;

/// What the browser says about the page at `path`: its document after the scripts ran.
fn dump(browser: &Path, folder: &Path, path: &Path) -> Result<String> {
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
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
    let record = fixture();
    std::fs::write(folder.path().join("report.html"), report::html(&record)?)?;
    let mut files = vec![("report.html".to_owned(), 360), ("report.html".to_owned(), 1280)];
    for (name, text) in report::svgs(&record)? {
        std::fs::write(folder.path().join(&name), text)?;
        files.push((name, 400));
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
        let page = measured["file"] == "report.html";
        ensure!(drawings >= if page { 10 } else { 1 }, "drawings are missing: {measured}");
        ensure!(measured["found"] == serde_json::json!([]), "{measured:#}");
    }
    Ok(())
}
