//! Texts that a fuzz target changes in places.

/// A change: its place, its length, and the number of a word; a number beyond the words stands for a character.
pub(crate) type Change<P> = (P, u8, u8);

/// Returns a text with some parts replaced, each of less than `length` characters.
pub(crate) fn spliced<P: Copy + Into<usize>>(
    text: &str,
    words: &[&str],
    length: u8,
    changes: &[Change<P>],
) -> String {
    let mut text: Vec<char> = text.chars().collect();
    for (at, by, word) in changes {
        let at = (*at).into() % (text.len() + 1);
        let end = (at + usize::from(by % length)).min(text.len());
        let word = match words.get(usize::from(*word) % (words.len() * 3 / 2)) {
            Some(word) => (*word).to_owned(),
            None => char::from(*word).to_string(),
        };
        text.splice(at..end, word.chars());
    }
    text.into_iter().collect()
}
