//! A text as the words that rules see: in lower case, without accents, and with the usual disguises taken off.
//!
//! Disguises: letters of other alphabets that look like Latin ones, full-width letters, digits for letters (`1gn0r3`), letters
//! with spaces or dots between them (`i g n o r e`), and characters without a width.

/// So many single letters in a row are one word that was spread.
const MIN_SPREAD: usize = 4;
/// Longer words are cut: none that is looked for is as long.
const MAX_WORD: usize = 40;

/// Gives every word of the text to `next`.
pub(crate) fn each_word(text: impl Iterator<Item = char>, next: &mut dyn FnMut(&str)) {
    let mut tokenizer = Tokenizer { word: String::new(), spread: String::new(), next };
    for character in text {
        match plain(character) {
            Some('\0') => {}
            Some(plain) => tokenizer.push(plain),
            None => tokenizer.end(),
        }
    }
    tokenizer.end();
    tokenizer.end_spread();
}

struct Tokenizer<'a> {
    word: String,
    /// Single letters so far.
    spread: String,
    next: &'a mut dyn FnMut(&str),
}

impl Tokenizer<'_> {
    fn push(&mut self, character: char) {
        if self.word.len() < MAX_WORD {
            self.word.push(character);
        }
    }

    fn end(&mut self) {
        let single = self
            .word
            .chars()
            .next()
            .filter(|letter| letter.is_alphabetic() && self.word.chars().nth(1).is_none());
        match single {
            Some(letter) => self.spread.push(letter),
            None if self.word.is_empty() => return,
            None => {
                self.end_spread();
                unmask_digits(&mut self.word);
                (self.next)(&self.word);
            }
        }
        self.word.clear();
    }

    fn end_spread(&mut self) {
        if self.spread.len() >= MIN_SPREAD {
            (self.next)(&self.spread);
        } else {
            let mut buffer = [0; 4];
            for letter in self.spread.chars() {
                (self.next)(letter.encode_utf8(&mut buffer));
            }
        }
        self.spread.clear();
    }
}

/// Digits between letters read as the letters that they look like.
fn unmask_digits(word: &mut String) {
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    if has_digit && word.len() > 1 && word.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        let letter = |character| match character {
            '0' => 'o',
            '1' => 'i',
            '3' => 'e',
            '4' => 'a',
            '5' => 's',
            '7' => 't',
            other => other,
        };
        let unmasked: String = word.chars().map(letter).collect();
        // Names of models and of encodings have digits of their own.
        if !matches!(word.as_str(), "base64" | "rot13" | "base32") {
            *word = unmasked;
        }
    }
}

/// The plain letter; NUL for what has no width; `None` for what ends a word.
fn plain(character: char) -> Option<char> {
    let plain = match character {
        'a'..='z' | '0'..='9' | '_' => character,
        'A'..='Z' => character.to_ascii_lowercase(),
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\'' | '\u{2019}' => '\0',
        '\0'..='\x7f' => return None,
        'à'..='å' | 'À'..='Å' | 'а' | 'А' => 'a',
        'ç' | 'Ç' | 'с' | 'С' => 'c',
        'è'..='ë' | 'È'..='Ë' | 'е' | 'Е' => 'e',
        'ì'..='ï' | 'Ì'..='Ï' | 'і' | 'І' => 'i',
        'ñ' | 'Ñ' => 'n',
        'ò'..='ö' | 'Ò'..='Ö' | 'о' | 'О' => 'o',
        'ù'..='ü' | 'Ù'..='Ü' => 'u',
        'р' | 'Р' => 'p',
        'у' | 'У' => 'y',
        'х' | 'Х' => 'x',
        'ѕ' | 'Ѕ' => 's',
        '\u{ff01}'..='\u{ff5e}' => {
            let half = char::from_u32(character as u32 - 0xfee0)?;
            return half.is_ascii_alphanumeric().then(|| half.to_ascii_lowercase());
        }
        other if other.is_alphanumeric() => other,
        _ => return None,
    };
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        let mut tokens = Vec::new();
        each_word(text.chars(), &mut |word| tokens.push(word.to_owned()));
        tokens
    }

    #[test]
    fn disguises_are_taken_off() {
        assert_eq!(tokens("Ignore, ALL rules!"), ["ignore", "all", "rules"]);
        assert_eq!(tokens("Ign0r3 4ll pr3v10u5"), ["ignore", "all", "previous"]);
        assert_eq!(tokens("I g n o r e all"), ["ignore", "all"]);
        assert_eq!(tokens("i.g.n.o.r.e a b"), ["ignoreab"], "letters that follow are taken for more of it");
        assert_eq!(
            tokens("r\u{200b}ules ｉｇｎｏｒｅ іgnоrе précédentes"),
            ["rules", "ignore", "ignore", "precedentes"]
        );
        assert_eq!(tokens("a b 12 base64 call send_email"), ["a", "b", "12", "base64", "call", "send_email"]);
    }
}
