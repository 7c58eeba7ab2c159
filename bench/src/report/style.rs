//! The style sheets: colours, charts, page. A chart that stands alone carries the first two.

/// Colours, light and dark. `--p0` to `--p7` are the candidates' (palette.rs), which also have
/// markers. All of them and all text have a contrast of 4.5:1 or more against the background.
pub const COLOURS: &str = "
:root { color-scheme: light dark;
  --bg: #ffffff; --panel: #f6f7f9; --text: #1b2128; --muted: #57606b; --grid: #dfe3e8;
  --line: #b3bac3;
  --link: #0b5fb0; --win: #0b5fb0; --loss: #b35000; --bad-bg: #fdeceb; --bad: #a3161a;
  --p0: #0b5fb0; --p1: #b35c00; --p2: #00795a; --p3: #c4314b; --p4: #8a4fb5; --p5: #4a545e;
  --p6: #857000; --p7: #007f92; }
@media (prefers-color-scheme: dark) { :root {
  --bg: #12161b; --panel: #1a2027; --text: #e4e9ee; --muted: #a0abb6; --grid: #2b333c;
  --line: #4d5965;
  --link: #7dbcff; --win: #6cb6ff; --loss: #f0a13c; --bad-bg: #3a1a1c; --bad: #ffb3ae;
  --p0: #6cb6ff; --p1: #f0a13c; --p2: #35c79a; --p3: #ff7d90; --p4: #c79bf2; --p5: #b8c2cc;
  --p6: #e3cf4f; --p7: #45c8de; } }
";

/// What charts are drawn with.
pub const CHART: &str = "
svg { font: 11px system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif;
  font-variant-numeric: tabular-nums; }
svg text { fill: var(--text); }
svg .m { fill: var(--muted); }
svg .b { font-weight: 600; }
svg .h { font-size: 13px; font-weight: 600; }
svg .e { text-anchor: end; }
svg .mid { text-anchor: middle; }
svg .halo { paint-order: stroke; stroke: var(--bg); stroke-width: 3px; stroke-linejoin: round; }
svg .grid { stroke: var(--grid); }
svg .axis { stroke: var(--line); }
svg .one { stroke: var(--text); stroke-width: 1.5; }
svg .paper { fill: var(--bg); }
.c0 { --c: var(--p0); } .c1 { --c: var(--p1); } .c2 { --c: var(--p2); } .c3 { --c: var(--p3); }
.c4 { --c: var(--p4); } .c5 { --c: var(--p5); } .c6 { --c: var(--p6); } .c7 { --c: var(--p7); }
.win { --c: var(--win); } .loss { --c: var(--loss); } .plain { --c: var(--muted); }
svg .fill { fill: var(--c); }
svg .hollow { fill: var(--bg); stroke: var(--c); stroke-width: 1.5; }
svg .mark { fill: var(--c); stroke: var(--bg); stroke-width: 0.8; }
svg .run { fill: none; stroke: var(--c); stroke-width: 1.8; stroke-linejoin: round; }
svg .ours { stroke-width: 3; }
svg .roof { stroke: var(--muted); stroke-width: 1.5; stroke-dasharray: 5 3; fill: none; }
";

/// The page around them.
pub const PAGE: &str = "
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 74rem; padding: 1rem 1rem 4rem; background: var(--bg);
  color: var(--text); font: 1rem/1.5 system-ui, -apple-system, 'Segoe UI', Roboto,
  'Helvetica Neue', Arial, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 1rem 0 0.25rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.75rem 0 0.5rem; padding-top: 0.75rem;
  border-top: 1px solid var(--grid); }
h3 { font-size: 1.02rem; margin: 1.75rem 0 0.4rem; }
p, ul { max-width: 46rem; margin: 0.5rem 0; }
ul { padding-left: 1.25rem; }
a { color: var(--link); }
code { font: 0.9em ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; }
.lead, .small, figcaption span { color: var(--muted); }
.small { font-size: 0.875rem; }
nav { display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; margin: 0.75rem 0; font-size: 0.9rem; }
nav a { padding: 0.25rem 0; }
.scroll { overflow-x: auto; margin: 0.5rem 0; }
table { border-collapse: collapse; font-size: 0.875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--muted); padding: 0.25rem 0; }
th, td { padding: 0.3rem 0.9rem 0.3rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--grid); }
th:last-child, td:last-child { padding-right: 0; }
thead th { color: var(--muted); font-weight: 600; border-bottom-color: var(--line);
  vertical-align: bottom; }
td.prose { min-width: 16rem; }
th.n, td.n { text-align: right; white-space: nowrap; }
td.row, thead th { white-space: nowrap; }
td.row wbr { display: none; }
thead th.name { white-space: normal; }
small { font-size: 0.85em; color: var(--muted); }
table.facts { width: 100%; max-width: 46rem; }
table.facts th { width: 9rem; font-weight: 400; color: var(--muted); }
table.facts td { overflow-wrap: anywhere; }
.loss-text { color: var(--loss); } .win-text { color: var(--win); }
.alarm { border-left: 4px solid var(--bad); background: var(--bad-bg); padding: 0.6rem 0.9rem;
  margin: 1rem 0; max-width: none; }
.alarm h3 { margin: 0; color: var(--bad); }
.note { border-left: 4px solid var(--line); background: var(--panel); padding: 0.6rem 0.9rem;
  margin: 1rem 0; }
.note h3 { margin: 0; }
.reasons { max-width: none; }
.reasons li { margin: 0.35rem 0; overflow-wrap: anywhere; }
details { margin: 0.5rem 0; }
summary { cursor: pointer; padding: 0.35rem 0; color: var(--link); }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr));
  gap: 1.5rem; align-items: start; margin: 0.75rem 0; }
figure { margin: 0; min-width: 0; max-width: 30rem; }
figcaption { font-size: 0.9rem; font-weight: 600; margin-bottom: 0.4rem; }
figcaption span { font-weight: 400; }
figure svg { display: block; width: 100%; height: auto; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
@media (max-width: 30rem) {
  .scroll table { font-size: 0.72rem; }
  th, td { padding-right: 0.35rem; }
  thead th, thead th.n { white-space: normal; }
}
@page wide { size: landscape; }
@media print {
  html { font-size: 12px; }
  body { max-width: none; padding: 0; }
  nav, .more > summary { display: none; }
  .scroll { overflow: visible; }
  details::details-content { content-visibility: visible; block-size: auto; }
  .charts { grid-template-columns: 1fr 1fr; }
  figure { max-width: none; }
  h2, h3, figcaption, summary { break-after: avoid; }
  figure, tr, .alarm, .whole, .reasons li { break-inside: avoid; }
  #all { page: wide; }
  #all table { font-size: 0.75rem; }
  #all th, #all td { padding-right: 0.5rem; }
  th, td { padding-top: 0.12rem; padding-bottom: 0.12rem; }
  td.row { white-space: normal; }
  td.row wbr { display: revert; }
  td.prose { min-width: 8rem; width: 16rem; }
  thead th, thead th.n { white-space: normal; }
}
";
