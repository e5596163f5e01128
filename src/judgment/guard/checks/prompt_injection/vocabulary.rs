//! The words that rules are made of, by what they do in an attack: in English, German, French, Spanish and Italian.
//!
//! Words are in lower case and without accents, as [`super::tokens`] makes them. Ambiguous ones are in several classes.

/// A set of classes.
pub(crate) type Classes = u64;

pub(crate) const OVERRIDE: Classes = 1;
pub(crate) const PRIOR: Classes = 1 << 1;
pub(crate) const RULES: Classes = 1 << 2;
pub(crate) const REVEAL: Classes = 1 << 3;
pub(crate) const SYSTEM: Classes = 1 << 4;
pub const PROMPT: Classes = 1 << 5;
pub const NO: Classes = 1 << 6;
pub const LIMITS: Classes = 1 << 7;
pub(crate) const UNBOUND: Classes = 1 << 8;
pub(crate) const ACT: Classes = 1 << 9;
pub const AS: Classes = 1 << 10;
pub(crate) const YOU: Classes = 1 << 11;
pub const NOW: Classes = 1 << 12;
pub const MODEL: Classes = 1 << 13;
pub(crate) const DISABLE: Classes = 1 << 14;
pub const SAFETY: Classes = 1 << 15;
pub(crate) const SEND: Classes = 1 << 16;
pub(crate) const DATA: Classes = 1 << 17;
pub(crate) const DECODE: Classes = 1 << 18;
pub(crate) const OBEY: Classes = 1 << 19;
pub const NOTE: Classes = 1 << 20;
pub const EVERY: Classes = 1 << 21;
pub(crate) const REPLY: Classes = 1 << 22;
pub const ADD: Classes = 1 << 23;
pub const CALL: Classes = 1 << 24;
/// A name with an underscore: of a function, not of a language.
pub const FUNCTION: Classes = 1 << 25;
pub const NEW: Classes = 1 << 26;
pub(crate) const ANYTHING: Classes = 1 << 27;
pub const DO: Classes = 1 << 28;
pub const MODE: Classes = 1 << 29;
pub(crate) const DEVELOPER: Classes = 1 << 30;
pub const ADMIN: Classes = 1 << 31;
pub(crate) const GRANT: Classes = 1 << 32;
pub(crate) const PASSAGE: Classes = 1 << 33;
pub const ABOVE: Classes = 1 << 34;
pub const READ: Classes = 1 << 35;
pub const FROM: Classes = 1 << 36;
pub const ON: Classes = 1 << 37;
pub(crate) const YOUR: Classes = 1 << 38;
pub const MUST: Classes = 1 << 39;
pub const END: Classes = 1 << 40;
pub const IF: Classes = 1 << 41;
pub(crate) const PERSONA: Classes = 1 << 42;
pub(crate) const ILLEGAL: Classes = 1 << 43;
pub const CHANGED: Classes = 1 << 44;
pub const WHEN: Classes = 1 << 45;
pub(crate) const CHARACTER: Classes = 1 << 46;
pub const NEVER: Classes = 1 << 47;
pub(crate) const REFUSE: Classes = 1 << 48;
pub(crate) const GIVEN: Classes = 1 << 49;
pub const EXEMPT: Classes = 1 << 50;
pub(crate) const MEANT: Classes = 1 << 51;
pub const TO: Classes = 1 << 52;
pub(crate) const ADDRESS: Classes = 1 << 53;
pub const CREDENTIALS: Classes = 1 << 54;
pub(crate) const THIS: Classes = 1 << 55;
pub(crate) const WHAT: Classes = 1 << 56;

/// Classes and their words.
const LISTS: [(Classes, &str); 60] = [
    (
        OVERRIDE,
        "ignore ignores ignoring disregard disregards disregarding forget bypass override overrides overrule discard neglect abandon ignoriere ignorieren ignorier vergiss vergesse vergessen missachte umgehe ignora ignorez ignorer oublie oubliez oublier olvida olvide olvidar ignorar dimentica dimenticare ignorare",
    ),
    (
        PRIOR,
        "previous previously prior above preceding earlier all any every these those initial original existing former foregoing past everything other current old entire vorherigen vorherige vorigen alle allen bisherigen obigen fruheren precedentes precedente precedents toutes tous anteriores anterior todas todos previas previos precedenti tutte tutti",
    ),
    (PRIOR | YOUR, "your ur deine deinen deiner ihre ihren tes ton votre vos tu tus sus tue tuo tuoi vostre"),
    (
        RULES,
        "instruction instructions rule rules guideline guidelines prompt prompts directive directives restriction restrictions policy policies programming command commands orders constraint constraints directions training conversation conversations anweisungen anweisung richtlinien regeln befehle vorgaben einschraenkungen einschrankungen systemanweisungen consignes regles instrucciones reglas directrices restricciones istruzioni regole direttive restrizioni",
    ),
    (
        REVEAL,
        "reveal show print repeat output display leak dump expose disclose recite tell write give share verbatim verrate zeige zeig nenne gib wiederhole revele revelez montre montrez affiche affichez repete muestra muestrame revela revelame dime repite rivela rivelami mostra mostrami dimmi ripeti",
    ),
    (
        SYSTEM,
        "system systems hidden secret internal initial original confidential underlying preprompt sistema systeme",
    ),
    (
        PROMPT,
        "prompt prompts instruction instructions configuration directives message guidelines systemprompt systemanweisungen anweisungen instrucciones istruzioni consignes preamble",
    ),
    (SYSTEM | PROMPT, "systemprompt systemanweisungen sysprompt"),
    (
        NO,
        "no without free any bypass beyond zero lack lacks not doesn doesnt dont don isnt arent never ohne keine keinerlei sans aucune sin ningun ninguna senza nessuna nessun",
    ),
    (
        LIMITS,
        "restriction restrictions limit limits limitation limitations filter filters filtering guideline guidelines rules policy policies censorship constraint constraints moral morals morality ethics ethical boundaries confines safeguards einschraenkungen einschrankungen beschrankungen grenzen filtre restrictions limites restricciones limites limitaciones filtros restrizioni limiti filtri",
    ),
    (
        UNBOUND,
        "unrestricted uncensored unfiltered amoral jailbroken jailbreak jailbreaks jailbreaking unbound uneingeschrankt unzensiert",
    ),
    (PERSONA, "dan betterdan dude evilbot devmode chaosgpt"),
    (ACT, "act acting pretend imitate roleplay simulate impersonate behave play emulate embody"),
    (AS, "as role"),
    (YOU, "you chatgpt gpt ai assistant du sie tu vous usted eres bist es sei"),
    (NOW, "now henceforth jetzt maintenant ahora adesso"),
    (
        MODEL,
        "ai bot chatbot llm assistant assistants model agent agents assistent asistente assistente chatgpt gpt claude",
    ),
    (
        DISABLE,
        "disable disabled disables skip skips bypass bypassed circumvent evade remove removed deactivate deactivated off suspended suspend exempt lifted waived override overridden",
    ),
    (
        SAFETY,
        "safety safeguards guardrails guardrail moderation protocols protections censorship confirmations sicherheitsrichtlinien seguridad sicurezza securite",
    ),
    (
        SEND,
        "send forward email mail post upload transmit exfiltrate submit collect upload envoie envoyez envia invia sende schicke",
    ),
    (
        DATA,
        "credentials credential password passwords key keys token tokens secrets secret database customers customer emails records data donnees datos dati kundendaten conversation history",
    ),
    (DECODE, "decode decrypt deobfuscate base64 rot13 hex decipher unscramble dekodiere decodifica"),
    (OBEY, "follow execute obey comply perform do run act befolge ausfuhren suis execute ejecuta esegui"),
    (NOTE, "note attention important notice instruction instructions message reminder hinweis nota remarque"),
    (EVERY, "every all each future always subsequent toute toutes cada todas ogni jede jeder"),
    (
        REPLY,
        "reply replies response responses answer answers summary summaries report reports output outputs review message reponse reponses respuesta risposta antwort zusammenfassung",
    ),
    (
        ADD,
        "append include included add insert embed prepend put mention ajoute ajoute ajouter aggiungi aggiunto anade anadir incluye includi hinzu",
    ),
    (CALL, "call invoke run use execute trigger"),
    (NEW, "new updated following real actual true neue nouvelles nuevas nuove"),
    (ANYTHING, "anything everything whatever"),
    (DO, "do answer say generate"),
    (MODE, "mode modus modo"),
    (
        DEVELOPER,
        "developer dev god debug admin maintenance unrestricted jailbreak sudo evil dan opposite entwickler",
    ),
    (ADMIN, "admin administrator root superuser sudo"),
    (GRANT, "grant granted authorized permission access escalate"),
    (PASSAGE, "words text everything sentences content lines"),
    (ABOVE, "above preceding before"),
    (
        READ,
        "read reading summarize summarise process processing review reviewing reviewing analyze lees lesen",
    ),
    (FROM, "from ab"),
    (ON, "on onwards forward forth"),
    (MUST, "must always shall need required should"),
    (END, "end ending ende fin"),
    (IF, "if"),
    (
        ILLEGAL,
        "illegal unethical immoral harmful offensive inappropriate unlawful dangerous explicit profanity",
    ),
    (CHANGED, "changed updated replaced superseded overridden lifted apply"),
    (WHEN, "when once before while"),
    (CHARACTER, "character persona fictional hypothetical universe scenario"),
    (NEVER, "never cannot cant not dont wont"),
    (REFUSE, "refuse refuses decline apologize sorry disclaimer disclaimers warnings reject deny"),
    (GIVEN, "given provided received were"),
    (EXEMPT, "exempt excluded immune"),
    (MEANT, "meant gelten aplican valgono"),
    (TO, "to an a al alla vers"),
    (ADDRESS, "com org net io example external externe externo esterno extern url http https webhook"),
    (CREDENTIALS, "credentials credential password passwords secrets keys token tokens"),
    (THIS, "this these diese ce questo este"),
    (WHAT, "what it instruction instructions inside exactly"),
    (RULES | LIMITS, "sicherheitsrichtlinien"),
    (SYSTEM | RULES, "instructionset"),
    (NEW | PRIOR, "nuove"),
];

/// Words are found by their first letter and their length, up to this one.
const MAX_LENGTH: usize = 24;
const BUCKETS: usize = 26 * (MAX_LENGTH + 1);

/// Every word with its classes: made once, where a check is prepared.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    /// By bucket.
    entries: Vec<(&'static str, Classes)>,
    /// Where each bucket begins; the last one is the end.
    buckets: Vec<usize>,
}

impl Vocabulary {
    pub fn new() -> Self {
        let mut entries: Vec<(&'static str, Classes)> = Vec::new();
        for (classes, list) in LISTS {
            for word in list.split(' ') {
                match entries.iter_mut().find(|(other, _)| *other == word) {
                    Some((_, all)) => *all |= classes,
                    None => entries.push((word, classes)),
                }
            }
        }
        entries.sort_unstable_by_key(|(word, _)| bucket(word));
        let begins =
            |wanted: usize| entries.partition_point(|(word, _)| bucket(word).unwrap_or(BUCKETS) < wanted);
        let buckets = (0..=BUCKETS).map(begins).collect();
        Self { entries, buckets }
    }

    /// The classes of a word; 0 for most.
    pub fn classes(&self, word: &str) -> Classes {
        let range =
            bucket(word).and_then(|bucket| Some(*self.buckets.get(bucket)?..*self.buckets.get(bucket + 1)?));
        let entries = range.and_then(|range| self.entries.get(range)).unwrap_or_default();
        let found = entries.iter().find(|(entry, _)| *entry == word).map_or(0, |(_, classes)| *classes);
        let is_function = word.len() > 4 && word.trim_matches('_').contains('_');
        found | if is_function { FUNCTION } else { 0 }
    }
}

fn bucket(word: &str) -> Option<usize> {
    let first = word.bytes().next().filter(u8::is_ascii_lowercase)?;
    (word.len() <= MAX_LENGTH).then(|| usize::from(first - b'a') * (MAX_LENGTH + 1) + word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_lists_is_found() {
        let vocabulary = Vocabulary::new();
        for (classes, list) in LISTS {
            for word in list.split(' ') {
                assert_eq!(vocabulary.classes(word) & classes, classes, "{word}");
            }
        }
        assert_eq!(vocabulary.classes("gardening"), 0);
        assert_eq!(vocabulary.classes("delete_file"), FUNCTION);
        assert_eq!(vocabulary.classes(""), 0);
    }
}
