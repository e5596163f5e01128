//! The syntax of patterns: that of the `regex` crate, with `\w`, `\d` and `\b` of ASCII, as JavaScript has them.
//!
//! The ASCII classes make the tables of ordinary patterns a hundred times smaller. Not here: the tables (`builder`).

use super::{Fuel, Refusal};
use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{
    AssertionKind, Ast, ClassAscii, ClassAsciiKind, ClassBracketed, ClassPerl, ClassPerlKind, ClassSet,
    ClassSetItem, Flag, Flags, FlagsItem, FlagsItemKind, Group, GroupKind, Span,
};
use regex_syntax::hir::Hir;
use regex_syntax::hir::translate::Translator;

/// Maximum nesting of groups and classes.
const MAX_DEPTH: u32 = 64;

/// What a named class such as `\pL` costs, in steps: its hundreds of ranges are copied and sorted.
const NAMED_CLASS_STEPS: usize = 1000;

/// What the upper and lower case of a class costs at most, in steps: every character of it is looked up.
const CASE_STEPS: usize = 1 << 20;

pub(super) fn parse(text: &str, fuel: &mut Fuel) -> Result<Hir, Refusal> {
    fuel.burn(16 * text.len())?;
    let mut ast = ParserBuilder::new()
        .nest_limit(MAX_DEPTH)
        .build()
        .parse(text)
        .map_err(|error| refuse(&error.kind().to_string()))?;
    let mut rewriter = Rewriter { ignores_case: has_case_flag(&ast), fuel };
    rewriter.rewrite(&mut ast)?;
    Translator::new().translate(text, &ast).map_err(|error| refuse(&error.kind().to_string()))
}

/// The message for an invalid pattern, of what the parser says about it: that never repeats the pattern.
fn refuse(mistake: &str) -> Refusal {
    let is_refused = mistake.contains("look-around") || mistake.contains("backreferences");
    Refusal::Mistake(if is_refused {
        format!("is a pattern we do not take: {mistake}; patterns take time linear in the text")
    } else {
        format!("is no pattern we can read: {mistake}")
    })
}

/// Whether upper and lower case may count as the same anywhere in the pattern.
fn has_case_flag(ast: &Ast) -> bool {
    match ast {
        Ast::Flags(set) => set.flags.flag_state(Flag::CaseInsensitive) == Some(true),
        Ast::Group(group) => {
            group.flags().is_some_and(|flags| flags.flag_state(Flag::CaseInsensitive) == Some(true))
                || has_case_flag(&group.ast)
        }
        Ast::Repetition(repetition) => has_case_flag(&repetition.ast),
        Ast::Alternation(list) => list.asts.iter().any(has_case_flag),
        Ast::Concat(list) => list.asts.iter().any(has_case_flag),
        _ => false,
    }
}

/// Puts ASCII classes in place of Unicode's and counts what the other classes cost.
struct Rewriter<'a> {
    ignores_case: bool,
    fuel: &'a mut Fuel,
}

impl Rewriter<'_> {
    fn rewrite(&mut self, ast: &mut Ast) -> Result<(), Refusal> {
        match ast {
            Ast::ClassPerl(class) => {
                if let Some(class) = ascii(class) {
                    let span = class.span;
                    let kind = ClassSet::Item(ClassSetItem::Ascii(class));
                    *ast = Ast::class_bracketed(ClassBracketed { span, negated: false, kind });
                }
                Ok(())
            }
            Ast::ClassUnicode(class) => self.burn_named(class.negated),
            Ast::ClassBracketed(class) if is_everything(class) => {
                *ast = anything(class.span);
                Ok(())
            }
            Ast::ClassBracketed(class) => self.rewrite_set(&mut class.kind),
            Ast::Repetition(repetition) => self.rewrite(&mut repetition.ast),
            Ast::Group(group) => self.rewrite(&mut group.ast),
            Ast::Alternation(list) => list.asts.iter_mut().try_for_each(|ast| self.rewrite(ast)),
            Ast::Concat(list) => list.asts.iter_mut().try_for_each(|ast| self.rewrite(ast)),
            Ast::Assertion(assertion) if is_of_word(&assertion.kind) => {
                *ast = without_unicode(assertion.span, Ast::assertion((**assertion).clone()));
                Ok(())
            }
            Ast::Empty(_) | Ast::Flags(_) | Ast::Literal(_) | Ast::Dot(_) | Ast::Assertion(_) => Ok(()),
        }
    }

    fn rewrite_set(&mut self, set: &mut ClassSet) -> Result<(), Refusal> {
        match set {
            ClassSet::Item(item) => self.rewrite_item(item),
            ClassSet::BinaryOp(operation) => {
                self.burn_case(CASE_STEPS)?;
                self.rewrite_set(&mut operation.lhs)?;
                self.rewrite_set(&mut operation.rhs)
            }
        }
    }

    fn rewrite_item(&mut self, item: &mut ClassSetItem) -> Result<(), Refusal> {
        match item {
            ClassSetItem::Perl(class) => {
                let negated = class.negated;
                if let Some(class) = ascii(class) {
                    *item = ClassSetItem::Ascii(class);
                }
                if negated { self.burn_case(CASE_STEPS) } else { Ok(()) }
            }
            ClassSetItem::Ascii(class) if class.negated => self.burn_case(CASE_STEPS),
            ClassSetItem::Unicode(class) => self.burn_named(class.negated),
            ClassSetItem::Bracketed(class) => {
                if class.negated {
                    self.burn_case(CASE_STEPS)?;
                }
                self.rewrite_set(&mut class.kind)
            }
            ClassSetItem::Range(range) => {
                let width = u32::from(range.end.c).saturating_sub(u32::from(range.start.c));
                self.burn_case(usize::try_from(width).unwrap_or(CASE_STEPS))
            }
            ClassSetItem::Union(union) => union.items.iter_mut().try_for_each(|item| self.rewrite_item(item)),
            ClassSetItem::Empty(_) | ClassSetItem::Literal(_) | ClassSetItem::Ascii(_) => Ok(()),
        }
    }

    fn burn_named(&mut self, negated: bool) -> Result<(), Refusal> {
        self.fuel.burn(NAMED_CLASS_STEPS)?;
        // The largest have 140,000 characters.
        self.burn_case(if negated { CASE_STEPS } else { CASE_STEPS / 8 })
    }

    /// `steps`: how many characters there may be to look up, were case to be ignored.
    fn burn_case(&mut self, steps: usize) -> Result<(), Refusal> {
        // Looking one up takes about a quarter of a step.
        if self.ignores_case { self.fuel.burn(steps / 4) } else { Ok(()) }
    }
}

/// The ASCII class for `\w`, `\d`, `\W` and `\D`; white space stays Unicode's, as JavaScript has it.
fn ascii(class: &ClassPerl) -> Option<ClassAscii> {
    let kind = match class.kind {
        ClassPerlKind::Digit => ClassAsciiKind::Digit,
        ClassPerlKind::Word => ClassAsciiKind::Word,
        ClassPerlKind::Space => return None,
    };
    Some(ClassAscii { span: class.span, kind, negated: class.negated })
}

/// Whether a class is `[\s\S]` or one of its like, which JavaScript needs for "any character". Such a class is common,
/// and looking up its million characters is not needed.
fn is_everything(class: &ClassBracketed) -> bool {
    let ClassSet::Item(ClassSetItem::Union(union)) = &class.kind else { return false };
    let [ClassSetItem::Perl(one), ClassSetItem::Perl(other)] = union.items.as_slice() else { return false };
    !class.negated && one.kind == other.kind && one.negated != other.negated
}

fn is_of_word(kind: &AssertionKind) -> bool {
    use AssertionKind as Kind;
    !matches!(kind, Kind::StartLine | Kind::EndLine | Kind::StartText | Kind::EndText)
}

/// `(?-u:…)`.
fn without_unicode(span: Span, ast: Ast) -> Ast {
    let item = |kind| FlagsItem { span, kind };
    let items = vec![item(FlagsItemKind::Negation), item(FlagsItemKind::Flag(Flag::Unicode))];
    let kind = GroupKind::NonCapturing(Flags { span, items });
    Ast::group(Group { span, kind, ast: Box::new(ast) })
}

/// `(?s:.)`.
fn anything(span: Span) -> Ast {
    let item = FlagsItem { span, kind: FlagsItemKind::Flag(Flag::DotMatchesNewLine) };
    let kind = GroupKind::NonCapturing(Flags { span, items: vec![item] });
    Ast::group(Group { span, kind, ast: Box::new(Ast::dot(span)) })
}
