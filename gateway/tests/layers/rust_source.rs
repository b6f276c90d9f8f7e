//! Rust source as far as the rules of the house need it: the paths and the types that it names.

use std::collections::BTreeSet;

/// One source file, reduced to the paths that it names outside of comments, strings and tests.
#[derive(Debug)]
pub(crate) struct Source {
    /// Its place in its crate: `["files", "open"]`; empty for the root.
    pub(crate) module: Vec<String>,
    /// Every path that it names, those of `use` included.
    pub(crate) paths: Vec<Vec<String>>,
    /// The paths that `use` brings into it.
    pub(crate) uses: Vec<Vec<String>>,
    /// The names of its types and traits.
    pub(crate) types: Vec<String>,
    test_modules: Vec<Vec<String>>,
}

impl Source {
    /// Reads the text of a module.
    pub(crate) fn new(module: Vec<String>, text: &str) -> Self {
        let mut tokens = tokens(&blank(text));
        let test_modules = remove_tests(&mut tokens)
            .into_iter()
            .map(|name| module.iter().cloned().chain([name]).collect())
            .collect();
        let (paths, uses) = paths(&tokens);
        Self {
            module,
            paths,
            uses,
            types: types(&tokens),
            test_modules,
        }
    }

    /// Returns its child modules in files of their own that are tests.
    pub(crate) fn test_modules(&self) -> Vec<Vec<String>> {
        self.test_modules.clone()
    }

    /// Returns the first names of its paths, each once: crates, among others.
    pub(crate) fn heads(&self) -> BTreeSet<String> {
        let head = |path: &Vec<String>| path.iter().find(|name| !name.is_empty()).cloned();
        self.paths.iter().filter_map(head).collect()
    }

    /// Returns whether a path holds these names one after the other.
    pub(crate) fn names(&self, path: &str) -> bool {
        let wanted: Vec<&str> = path.split("::").collect();
        let holds = |path: &Vec<String>| match wanted.as_slice() {
            // A crate is named at the start of a path.
            [head] => path.first().is_some_and(|name| name == head),
            _ => path
                .windows(wanted.len())
                .any(|window| window == wanted.as_slice()),
        };
        self.paths.iter().any(holds)
    }
}

/// Returns the text without comments and literals.
fn blank(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skip = literal_or_comment(rest, out.chars().next_back());
        if skip > 0 {
            out.push(' ');
            rest = &rest[skip..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// Returns the length of the comment or literal at the start of the text; 0 if there is neither.
fn literal_or_comment(text: &str, before: Option<char>) -> usize {
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let to = |end: &str, from: usize| {
        text[from..]
            .find(end)
            .map_or(text.len(), |at| from + at + end.len())
    };
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return to("*/", 2);
    }
    if text.starts_with('"') {
        return quoted(text, '"');
    }
    if !in_word && (text.starts_with("r\"") || text.starts_with("r#")) {
        let hashes = text[1..].chars().take_while(|&c| c == '#').count();
        if text[1 + hashes..].starts_with('"') {
            return to(&format!("\"{}", "#".repeat(hashes)), 2 + hashes);
        }
    }
    // A character literal, not a lifetime.
    let mut chars = text.chars();
    match (chars.next(), chars.next(), chars.next()) {
        (Some('\''), Some('\\'), _) => quoted(text, '\''),
        (Some('\''), Some(inner), Some('\'')) => 2 + inner.len_utf8(),
        _ => 0,
    }
}

fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// Splits the text into words, `::`, and single characters of punctuation.
fn tokens(text: &str) -> Vec<String> {
    let mut found: Vec<String> = vec![];
    let mut word = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            found.push(std::mem::take(&mut word));
        }
        if c == ':' && chars.next_if_eq(&':').is_some() {
            found.push("::".to_owned());
        } else if !c.is_whitespace() {
            found.push(c.to_string());
        }
    }
    found.extend((!word.is_empty()).then_some(word));
    found
}

/// Removes the items behind `#[cfg(test)]`; returns the names of modules among them that have their
/// own files.
fn remove_tests(tokens: &mut Vec<String>) -> Vec<String> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut names = vec![];
    while let Some(start) = tokens.windows(MARK.len()).position(|window| window == MARK) {
        let item = start + MARK.len();
        let end = item + item_len(&tokens[item..]);
        if let [module, name, semicolon] = &tokens[end.saturating_sub(3)..end]
            && module == "mod"
            && semicolon == ";"
        {
            names.push(name.clone());
        }
        tokens.drain(start..end);
    }
    names
}

/// Returns the length of an item, up to its `;` or closing brace.
fn item_len(tokens: &[String]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "{" => depth += 1,
            "}" if depth <= 1 => return at + 1,
            "}" => depth -= 1,
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// Returns the names of types and traits. A `type` within braces belongs to a trait or to an implementation of one.
fn types(tokens: &[String]) -> Vec<String> {
    let mut depth = 0_i32;
    let mut found = vec![];
    for (at, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "struct" | "enum" | "union" | "trait" => found.extend(tokens.get(at + 1).cloned()),
            "type" if depth == 0 => found.extend(tokens.get(at + 1).cloned()),
            _ => {}
        }
    }
    found
}

/// Returns every path, `a::b::c` as written and each branch of a `use` tree, and those of `use` apart.
fn paths(tokens: &[String]) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
    let (mut found, mut uses) = (vec![], vec![]);
    let mut at = 0;
    while at < tokens.len() {
        let inside = at > 0 && (tokens[at - 1] == "." || tokens[at - 1] == "in");
        let begins = is_word(&tokens[at]) || tokens[at] == "::";
        if tokens[at] == "use" {
            at += 1 + tree(&tokens[at + 1..], &[], &mut uses);
        } else if begins
            && !inside
            && tokens
                .get(at + 1)
                .is_some_and(|next| next == "::" || tokens[at] == "::")
        {
            at += path(&tokens[at..], &mut vec![], &mut found);
        } else {
            at += 1;
        }
    }
    found.extend(uses.iter().cloned());
    (found, uses)
}

/// Reads a path outside of `use`; returns its length in tokens.
fn path(tokens: &[String], names: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
    let mut at = 0;
    while at < tokens.len() {
        if is_word(&tokens[at]) {
            names.push(tokens[at].clone());
            at += 1;
            if tokens.get(at).is_none_or(|next| next != "::") {
                break;
            }
        } else if tokens[at] == "::" {
            at += 1;
        } else {
            break;
        }
    }
    found.push(std::mem::take(names));
    at.max(1)
}

/// Reads one branch of a `use` tree below `prefix`; returns its length in tokens.
fn tree(tokens: &[String], prefix: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let mut names = prefix.to_vec();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token != "}") {
                    at += tree(&tokens[at..], &names, found).max(1);
                    at += usize::from(tokens.get(at).is_some_and(|token| token == ","));
                }
                return at + 1;
            }
            "as" => at += 2,
            word if is_word(word) || word == "*" => {
                names.push(word.to_owned());
                at += 1;
            }
            _ => break,
        }
    }
    found.push(names);
    at
}

fn is_word(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphanumeric() || first == '_')
}
