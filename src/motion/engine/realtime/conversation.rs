//! How much a turn of a realtime session may use: its input is the whole conversation, of which the gateway knows what was reported and what
//! was sent since.
//!
//! | Part of a turn | Likely | At most |
//! |---|---|---|
//! | reported input and output of the largest response so far | that | that |
//! | audio that was sent since | a token for 6,400 bytes of base64 (PCM at 24 kHz) | for 800 (G.711 at 8 kHz) |
//! | other events that were sent since | a token for three bytes | for each byte |
//! | output | what such turns use | `max_output_tokens` (`session_bounds`) |
//!
//! A token of the user's audio is 100 ms (<https://platform.openai.com/docs/guides/realtime-costs>).

use crate::engine::usage_estimate::TurnUse;

/// Tokens of instructions that a provider adds where the client gives none.
const INSTRUCTIONS: u64 = 1000;
/// Tokens of audio that may follow while a turn is held that the provider may begin: ten minutes.
pub(super) const AHEAD: u64 = 6000;

/// Tokens, likely and at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sent {
    likely: u64,
    pub most: u64,
}

/// What a session's conversation may be long.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    reported: u64,
    /// Since the session was opened.
    sent: Sent,
    /// What of it is in what was reported.
    before: Sent,
}

impl Conversation {
    /// A client's event of so many bytes.
    pub fn add(&mut self, bytes: usize) {
        self.sent.likely += bytes as u64 / 3 + 1;
        self.sent.most += bytes as u64;
    }

    /// A client's event with audio.
    pub fn add_audio(&mut self, bytes: usize) {
        let audio = audio(bytes);
        self.sent.likely += audio.likely;
        self.sent.most += audio.most;
    }

    /// The last event with audio was not sent.
    pub fn take_back_audio(&mut self, bytes: usize) {
        let audio = audio(bytes);
        self.sent.likely = self.sent.likely.saturating_sub(audio.likely);
        self.sent.most = self.sent.most.saturating_sub(audio.most);
    }

    pub fn sent(&self) -> Sent {
        self.sent
    }

    /// A response has used so many tokens, with what had been sent when it began.
    pub fn report(&mut self, tokens: u64, sent: Sent) {
        self.reported = self.reported.max(tokens);
        if sent.most > self.before.most {
            self.before = sent;
        }
    }

    /// What a turn may use. `max_output`: its bound, tokens.
    pub fn turn(&self, max_output: u64) -> TurnUse {
        let likely = self.sent.likely.saturating_sub(self.before.likely);
        let most = self.sent.most.saturating_sub(self.before.most);
        TurnUse {
            input: self.reported.saturating_add(likely),
            max_input: self.reported.saturating_add(most).saturating_add(INSTRUCTIONS),
            max_output,
            is_made: false,
        }
    }

    /// What the next turn that the provider begins may use, with the audio that may arrive before it.
    pub fn turn_ahead(&self, max_output: u64) -> TurnUse {
        let turn = self.turn(max_output);
        TurnUse { max_input: turn.max_input.saturating_add(AHEAD), ..turn }
    }
}

/// Of an event of so many bytes.
const fn audio(bytes: usize) -> Sent {
    Sent { likely: bytes as u64 / 6400 + 1, most: bytes as u64 / 800 + 1 }
}

/// The least that the first turn of a session uses: where that is refused, every turn is.
pub(in crate::engine) fn first_turn() -> TurnUse {
    TurnUse { input: 1, max_input: 1, max_output: 1, is_made: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_the_conversation_as_its_input() {
        let mut conversation = Conversation::default();
        conversation.add(300);
        let turn = conversation.turn(50);
        assert_eq!((turn.input, turn.max_input, turn.max_output), (101, 1300, 50));
        let begun = conversation.sent();
        conversation.add_audio(64_000);
        conversation.report(500, begun);
        let turn = conversation.turn(70);
        assert_eq!((turn.input, turn.max_input, turn.max_output), (511, 1581, 70));
        // A response outside of the conversation is shorter, and makes it no shorter.
        conversation.report(20, begun);
        assert_eq!(conversation.turn(70).input, 511);
        assert_eq!(conversation.turn_ahead(70).max_input, 7581);
    }
}
