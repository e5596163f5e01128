//! Finds the tools of a long list that a few words mean: BM25 over their names, descriptions and parameters, without a model.
//!
//! Pure: the same words find the same tools in the same order. Which tools there are is the caller's to say.

use std::collections::HashMap;

/// How fast more of the same word stops to count, and how much a long text counts less: the values of the literature.
const SATURATION: f64 = 1.2;
const LENGTH_WEIGHT: f64 = 0.75;
/// How much a word of the name counts.
const NAME_WEIGHT: u32 = 3;
/// The most words of a query, and characters of one text, that are read.
const MAX_TERMS: usize = 32;
const MAX_TEXT: usize = 4096;

/// A tool, as it is searched.
#[derive(Debug, Clone)]
pub struct SearchedTool<'t> {
    pub name: &'t str,
    /// Its description, and the names of its parameters.
    pub text: String,
}

/// How often each of the query's words is in a tool, and how many words it has.
struct Counts {
    of_terms: Vec<u32>,
    words: u32,
}

/// The places of the tools that a query means, the best first; at most `limit`. A query without words means all of them.
pub fn rank(query: &str, tools: &[SearchedTool<'_>], limit: usize) -> Vec<usize> {
    let mut terms: HashMap<String, usize> = HashMap::new();
    for word in words(query) {
        let next = terms.len();
        if next < MAX_TERMS {
            terms.entry(word).or_insert(next);
        }
    }
    if terms.is_empty() {
        return (0..tools.len().min(limit)).collect();
    }
    let counts: Vec<Counts> = tools.iter().map(|tool| Counts::of(tool, &terms)).collect();
    let mut with_term = vec![0_u32; terms.len()];
    for count in &counts {
        for (with, of) in with_term.iter_mut().zip(&count.of_terms) {
            *with += u32::from(*of > 0);
        }
    }
    let all = counts.len() as f64;
    let mean = counts.iter().map(|count| f64::from(count.words)).sum::<f64>() / all.max(1.0);
    let rarity: Vec<f64> = with_term
        .iter()
        .map(|with| (1.0 + (all - f64::from(*with) + 0.5) / (f64::from(*with) + 0.5)).ln())
        .collect();
    let mut found: Vec<(usize, f64)> = counts
        .iter()
        .map(|count| count.score(&rarity, mean))
        .enumerate()
        .filter(|(_, score)| *score > 0.0)
        .collect();
    found.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    found.into_iter().take(limit).map(|(at, _)| at).collect()
}

impl Counts {
    fn of(tool: &SearchedTool<'_>, terms: &HashMap<String, usize>) -> Self {
        let mut counts = Self { of_terms: vec![0; terms.len()], words: 0 };
        let weighted = words(tool.name).map(|word| (word, NAME_WEIGHT));
        for (word, weight) in weighted.chain(words(&tool.text).map(|word| (word, 1))) {
            counts.words += weight;
            if let Some(count) = terms.get(&word).and_then(|at| counts.of_terms.get_mut(*at)) {
                *count += weight;
            }
        }
        counts
    }

    fn score(&self, rarity: &[f64], mean: f64) -> f64 {
        let length = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * f64::from(self.words) / mean.max(1.0);
        let one = |(count, rarity): (&u32, &f64)| {
            let count = f64::from(*count);
            rarity * count * (SATURATION + 1.0) / (count + SATURATION * length)
        };
        self.of_terms.iter().zip(rarity).map(one).sum()
    }
}

/// The words of a text in lower case; `readFile` and `read_file` are two words each.
fn words(text: &str) -> impl Iterator<Item = String> {
    let text = text.get(..text.floor_char_boundary(MAX_TEXT)).unwrap_or_default();
    let mut found: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut was_lower = false;
    for char in text.chars() {
        let is_new = char.is_uppercase() && was_lower;
        if (is_new || !char.is_alphanumeric()) && !word.is_empty() {
            found.push(std::mem::take(&mut word));
        }
        was_lower = char.is_lowercase() || char.is_numeric();
        word.extend(char.to_lowercase().filter(|_| char.is_alphanumeric()));
    }
    found.extend(Some(word).filter(|word| !word.is_empty()));
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools() -> Vec<SearchedTool<'static>> {
        [
            ("files__readFile", "Reads a file from disk. path"),
            ("files__write_file", "Writes text to a file. path text"),
            ("mail__send", "Sends a message to somebody. Attach any file. to subject body"),
            ("weather__today", "The weather at a place. city"),
        ]
        .map(|(name, text)| SearchedTool { name, text: text.to_owned() })
        .to_vec()
    }

    #[test]
    fn the_tool_that_is_meant_comes_first() {
        let found = |query: &str, limit| rank(query, &tools(), limit);
        assert_eq!(found("read file", 2), [0, 1]);
        assert_eq!(found("WRITE", 10), [1]);
        assert_eq!(found("send a message", 1), [2]);
        assert_eq!(found("file", 10), [0, 1, 2], "a word of the name counts more");
        assert_eq!(found("weather in the city", 1), [3]);
        assert!(found("nothing of this", 10).is_empty());
        assert!(found("xyz", 10).is_empty());
        assert_eq!(found(" -- ", 3), [0, 1, 2]);
    }

    #[test]
    fn long_texts_are_read_to_a_bound() {
        let long = format!("{} needle", "hay ".repeat(MAX_TEXT));
        let tools = [SearchedTool { name: "a", text: long }];
        assert!(rank("needle", &tools, 1).is_empty());
        assert_eq!(rank("hay", &tools, 1), [0]);
        let many: Vec<String> = (0..100).map(|number| format!("w{number}")).collect();
        assert!(rank(&many.join(" "), &tools, 1).is_empty());
    }
}
