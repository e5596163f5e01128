//! Which words in which order are an attack, and how much each speaks for one.
//!
//! A rule is a sequence: a word of each class, each at most so many words behind the one before it. All rules are followed side
//! by side, one state each: the time is linear in the words.

use super::vocabulary::{
    ABOVE, ACT, ADD, ADDRESS, ADMIN, ANYTHING, AS, CALL, CHANGED, CHARACTER, CREDENTIALS, Classes, DATA,
    DECODE, DEVELOPER, DISABLE, DO, END, EVERY, EXEMPT, FROM, FUNCTION, GIVEN, GRANT, IF, ILLEGAL, LIMITS,
    MEANT, MODE, MODEL, MUST, NEVER, NEW, NO, NOTE, NOW, OBEY, ON, OVERRIDE, PASSAGE, PERSONA, PRIOR, PROMPT,
    READ, REFUSE, REPLY, REVEAL, RULES, SAFETY, SEND, SYSTEM, THIS, TO, UNBOUND, WHAT, WHEN, YOU, YOUR,
};

/// One step: these classes (one is enough), at most so many words behind the step before it.
type Step = (Classes, usize);

/// A sequence of words.
#[derive(Debug)]
pub struct Rule {
    /// As results show it. Several rules have one name: it counts once, with the highest weight.
    pub name: &'static str,
    /// How much it speaks for an attack, from 0 to 1.
    pub weight: f64,
    steps: &'static [Step],
    /// Of all steps.
    classes: Classes,
}

const MAX_STEPS: usize = 4;

const fn rule(name: &'static str, weight: f64, steps: &'static [Step]) -> Rule {
    let mut classes = 0;
    let mut rest = steps;
    while let [(step, _), after @ ..] = rest {
        classes |= *step;
        rest = after;
    }
    Rule { name, weight, steps, classes }
}

pub(crate) const SEQUENCES: [Rule; 46] = [
    rule("instruction_override", 0.8, &[(OVERRIDE, 0), (PRIOR, 3), (RULES, 4)]),
    rule("instruction_override", 0.7, &[(OVERRIDE, 0), (RULES, 3), (PRIOR | ABOVE, 2)]),
    rule("instruction_override", 0.6, &[(OVERRIDE, 0), (SYSTEM, 2), (RULES, 2)]),
    rule("instruction_override", 0.55, &[(OVERRIDE, 0), (SAFETY, 3)]),
    rule("instruction_override", 0.5, &[(OVERRIDE, 0), (ANYTHING, 1), (ABOVE, 3)]),
    rule("instruction_override", 0.5, &[(NEVER, 0), (OBEY, 2), (PRIOR, 3), (RULES, 3)]),
    rule("new_instructions", 0.5, &[(RULES, 0), (CHANGED, 3), (YOU, 3), (NOW, 2)]),
    rule("new_instructions", 0.5, &[(YOUR, 0), (RULES, 2), (CHANGED, 3)]),
    rule("new_instructions", 0.5, &[(YOUR, 0), (NEW, 1), (RULES, 2)]),
    rule("new_instructions", 0.5, &[(OBEY, 0), (NEW, 3), (RULES, 2)]),
    rule("new_instructions", 0.35, &[(FROM, 0), (NOW, 1), (ON, 1), (YOU, 4)]),
    rule("new_instructions", 0.3, &[(YOU, 0), (NOW, 2)]),
    rule("prompt_extraction", 0.7, &[(REVEAL, 0), (YOUR, 3), (SYSTEM, 3), (PROMPT, 2)]),
    rule("prompt_extraction", 0.7, &[(REVEAL, 0), (YOUR, 3), (PROMPT, 3)]),
    rule("prompt_extraction", 0.6, &[(REVEAL, 0), (SYSTEM, 3), (PROMPT, 3)]),
    rule("prompt_extraction", 0.5, &[(PROMPT, 0), (YOU, 1), (GIVEN, 3)]),
    rule("prompt_extraction", 0.6, &[(REVEAL, 0), (PASSAGE, 3), (ABOVE, 2)]),
    rule("unrestricted_persona", 0.45, &[(NO, 0), (LIMITS, 4)]),
    rule("unrestricted_persona", 0.6, &[(YOU | MODEL | ACT, 0), (NO, 10), (LIMITS, 4)]),
    rule("unrestricted_persona", 0.45, &[(UNBOUND, 0)]),
    rule("unrestricted_persona", 0.6, &[(YOU | MODEL | ACT, 0), (UNBOUND, 8)]),
    rule("unrestricted_persona", 0.5, &[(DO, 0), (ANYTHING, 1), (NOW, 1)]),
    rule("unrestricted_persona", 0.4, &[(YOU | ACT | AS, 0), (PERSONA, 4)]),
    rule("unrestricted_persona", 0.4, &[(DEVELOPER, 0), (MODE, 1)]),
    rule("unrestricted_persona", 0.4, &[(NEVER, 0), (REFUSE, 4)]),
    rule("unrestricted_persona", 0.35, &[(ILLEGAL, 0), (ILLEGAL, 4)]),
    rule("role_play", 0.25, &[(ACT, 0), (AS, 3)]),
    rule("role_play", 0.3, &[(ACT, 0), (YOU, 2)]),
    rule("role_play", 0.25, &[(CHARACTER, 0)]),
    rule("safety_disabled", 0.6, &[(DISABLE, 0), (SAFETY, 3)]),
    rule("safety_disabled", 0.6, &[(SAFETY, 0), (DISABLE, 3)]),
    rule("safety_disabled", 0.55, &[(SAFETY, 0), (NEVER, 6), (CHANGED | MEANT, 3)]),
    rule("safety_disabled", 0.5, &[(EXEMPT, 0), (LIMITS | SAFETY, 4)]),
    rule("privilege_escalation", 0.5, &[(GRANT, 0), (ADMIN, 4)]),
    rule("privilege_escalation", 0.5, &[(ADMIN, 0), (GRANT, 4)]),
    rule("data_exfiltration", 0.5, &[(SEND, 0), (DATA, 6), (TO, 4), (ADDRESS, 3)]),
    rule("data_exfiltration", 0.5, &[(DATA, 0), (SEND, 6), (TO, 4), (ADDRESS, 4)]),
    rule("data_exfiltration", 0.6, &[(REVEAL, 0), (PRIOR, 2), (CREDENTIALS, 2)]),
    rule("addressed_to_model", 0.45, &[(NOTE, 0), (MODEL, 4)]),
    rule("addressed_to_model", 0.45, &[(IF, 0), (YOU, 1), (MODEL, 4)]),
    rule("addressed_to_model", 0.3, &[(MODEL, 0), (MODEL, 2)]),
    rule("addressed_to_reader", 0.35, &[(WHEN, 0), (YOU, 1), (READ, 2), (THIS, 3)]),
    rule("function_call", 0.35, &[(CALL, 0), (FUNCTION, 2)]),
    rule("decode_and_obey", 0.6, &[(DECODE, 0), (OBEY, 12), (WHAT | PROMPT, 4)]),
    rule("persistent_instruction", 0.5, &[(ADD, 0), (EVERY | END, 14), (REPLY, 4)]),
    rule("persistent_instruction", 0.4, &[(MUST, 0), (ADD, 3), (REPLY | EVERY, 12)]),
];

/// Follows all rules through a text.
#[derive(Debug)]
pub(crate) struct Matcher {
    /// For each rule and step the last word that completed it, counted from 1.
    reached: [[usize; MAX_STEPS]; SEQUENCES.len()],
    word: usize,
    fired: u64,
}

impl Rule {
    /// Whether one word is enough for it: too little where the text was decoded in a way that may not be meant.
    pub(crate) fn is_single(&self) -> bool {
        self.steps.len() == 1
    }
}

impl Matcher {
    pub fn new() -> Self {
        Self { reached: [[0; MAX_STEPS]; SEQUENCES.len()], word: 0, fired: 0 }
    }

    /// The next word.
    pub fn read(&mut self, classes: Classes) {
        self.word += 1;
        if classes == 0 {
            return;
        }
        for (index, (rule, reached)) in SEQUENCES.iter().zip(&mut self.reached).enumerate() {
            if rule.classes & classes == 0 {
                continue;
            }
            // From the last step to the first: a word is one step of a rule at most.
            for (step, (wanted, gap)) in rule.steps.iter().enumerate().rev() {
                let before = step.checked_sub(1).and_then(|before| reached.get(before)).copied();
                let follows = before.is_none_or(|before| before > 0 && self.word - before <= *gap);
                let Some(place) = reached.get_mut(step).filter(|_| classes & wanted != 0 && follows) else {
                    continue;
                };
                *place = self.word;
                if step + 1 == rule.steps.len() {
                    self.fired |= 1 << index;
                }
                break;
            }
        }
    }

    /// The rules that were matched.
    pub(crate) fn fired(&self) -> impl Iterator<Item = &'static Rule> {
        let fired = self.fired;
        SEQUENCES.iter().enumerate().filter(move |(index, _)| fired & (1 << index) != 0).map(|(_, rule)| rule)
    }
}
