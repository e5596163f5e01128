//! An encoding of OpenAI's: pieces of text, and the tokens of each.
//!
//! Counts; nobody needs the tokens themselves.

use super::merger::Merger;
use super::pieces::Cutter;
use super::vocabulary::Vocabulary;

#[derive(Debug)]
pub(super) struct Encoding {
    cutter: Cutter,
    vocabulary: Vocabulary,
}

impl Encoding {
    /// # Errors
    /// None, as a test proves.
    pub fn o200k_base() -> Result<Self, String> {
        let cutter = Cutter::o200k_base().map_err(|error| error.to_string())?;
        Ok(Self { cutter, vocabulary: Vocabulary::o200k_base()? })
    }

    pub fn count(&self, text: &str) -> usize {
        let mut merger = Merger::default();
        self.cutter.pieces(text).map(|piece| merger.count(&self.vocabulary, piece.as_bytes())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text, how many times it is repeated, and how many tokens that has by the crate `bpe-openai` 0.3.2.
    const COUNTS: [(&str, usize, usize); 28] = [
        ("Hello world's 12345\n", 1, 6),
        ("The quick brown fox jumps over the lazy dog. ", 100, 1001),
        ("a", 100000, 12500),
        ("ab", 33333, 16667),
        (" ", 99999, 782),
        ("\n", 5000, 313),
        ("ab\n \t", 3333, 13331),
        ("日本語のテキスト", 999, 5994),
        ("Straße, naïve, coöperate; ", 99, 893),
        ("é\u{301}", 999, 1998),
        ("\u{0}", 1000, 500),
        ("👩\u{200d}👩\u{200d}👧\u{200d}👦🏳\u{fe0f}\u{200d}🌈", 77, 1309),
        ("مرحبا بالعالم ", 55, 221),
        ("नमस्ते दुनिया ", 55, 222),
        ("fn main() {\r\n\tprintln!(\"{}\", x[0]);\r\n}\r\n", 50, 600),
        ("{\"a\":[1,2.5e-10,true,null],\"b\":\"\\u00e9\"}", 40, 880),
        ("3.14159265358979", 40, 241),
        ("don't WON'T I'LL he'd ", 30, 181),
        ("CamelCaseAndSNAKE_case-kebab/path//", 60, 660),
        ("https://example.com/a?b=c&d=%20#e ", 20, 281),
        ("<|endoftext|>", 10, 61),
        ("=================", 50, 14),
        ("  indented\n    more\n", 60, 420),
        ("\u{a0}\u{2003}x", 40, 120),
        ("Ǆǅǆ ", 40, 280),
        ("x\u{338}\u{327}\u{31b}", 70, 420),
        ("ﷺ", 33, 66),
        ("SGVsbG8gV29ybGQhIFRoaXMgaXM", 44, 792),
    ];

    #[test]
    fn counts_are_those_of_openais_tokenizer() {
        let encoding = Encoding::o200k_base().unwrap();
        for (text, times, wanted) in COUNTS {
            assert_eq!(encoding.count(&text.repeat(times)), wanted, "{text:?}");
        }
        let mut all = String::new();
        for number in 0..30_000_u32 {
            let code = number.wrapping_mul(2_654_435_761) % 0x2_ffff;
            all.push(char::from_u32(code).unwrap_or(' '));
            if number % 7 == 0 {
                all.push_str(" the");
            }
        }
        assert_eq!(encoding.count(&all), 105070);
    }
}
