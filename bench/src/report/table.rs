//! Tables that scroll inside their own frame, long ones folded.

use maud::{Markup, html};
use std::borrow::Cow;

/// Rows of a long table that are seen unfolded.
const SEEN: usize = 10;

/// A column's heading and kind.
pub struct Column {
    /// The heading.
    name: Cow<'static, str>,
    /// The class of the heading.
    class: Option<&'static str>,
}

impl Column {
    /// A column of words.
    pub const fn text(name: &'static str) -> Column {
        Column { name: Cow::Borrowed(name), class: None }
    }

    /// A column of numbers, which are set to the right.
    pub const fn number(name: &'static str) -> Column {
        Column { name: Cow::Borrowed(name), class: Some("n") }
    }

    /// A column of numbers about something that a record names; the heading may wrap.
    pub fn named(name: String) -> Column {
        Column { name: Cow::Owned(name), class: Some("n name") }
    }
}

/// A record's name, which may be broken after its underscores.
pub fn breakable(name: &str) -> Markup {
    html! {
        @for (index, part) in name.split_inclusive('_').enumerate() {
            @if index > 0 { wbr; }
            (part)
        }
    }
}

/// A cell of words.
pub fn cell(text: &str) -> Markup {
    html! { td { (breakable(text)) } }
}

/// A cell of a name, kept on one line but for paper.
pub fn name(text: &str) -> Markup {
    html! { td class="row" { (breakable(text)) } }
}

/// A cell of a few words, kept on one line, or of sentences, which wrap.
pub fn prose(text: &str) -> Markup {
    html! { td class=(if text.len() > 30 { "prose" } else { "row" }) { (text) } }
}

/// A cell of a number, a dash for none.
pub fn number(text: Option<String>) -> Markup {
    html! { td class="n" { (text.as_deref().unwrap_or("–")) } }
}

/// A table; `name` says what it holds to readers who do not see the heading above it. The frame
/// takes the keyboard's focus, because it may have to be scrolled.
pub fn table(name: &str, columns: &[Column], rows: &[Vec<Markup>]) -> Markup {
    html! {
        div class="scroll" role="region" tabindex="0" aria-label=(name) {
            table {
                thead { tr {
                    @for column in columns {
                        th scope="col" class=[column.class] { (breakable(&column.name)) }
                    }
                } }
                tbody { @for row in rows { tr { @for cell in row { (cell) } } } }
            }
        }
    }
}

/// How many of so many rows are seen: two or three are not worth a fold.
pub fn seen(rows: usize) -> usize {
    if rows <= SEEN + 3 { rows } else { SEEN }
}

/// A table of which all but the first rows are folded.
pub fn long_table(name: &str, columns: &[Column], rows: &[Vec<Markup>]) -> Markup {
    let (first, folded) = rows.split_at(seen(rows.len()));
    html! {
        (table(name, columns, first))
        @if !folded.is_empty() {
            details class="more" {
                summary { (folded.len()) " more" }
                (table(&format!("{name}, the rest"), columns, folded))
            }
        }
    }
}
