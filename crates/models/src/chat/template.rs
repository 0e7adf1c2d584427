//! Chat templates: renders a conversation as the tokens that the model was trained on.
//!
//! The special tokens of the template are recognised; those in messages never are. To tell them apart, every
//! character of a message passes through the template with a marker character before it.
//!
//! Source: `tokenizer.chat_template`, with the Jinja settings of `transformers`.

use std::ops::Range;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, context};

use crate::chat::message::{ChatMessage, ChatRole};
use crate::decoder::TokenVocabulary;
use crate::error::ModelError;
use crate::gguf::Gguf;

/// The marker before every character of a message: a Unicode noncharacter. A text that contains it
/// keeps it, because it is marked as well.
const GIVEN: char = '\u{fdd0}';
/// The base limit on the execution steps of a template.
const STEPS: u64 = 100_000;
const STEPS_PER_MESSAGE: u64 = 10_000;
/// The character limit of a template's error message, which may quote the conversation.
const SAID: usize = 200;
const NAME: &str = "chat_template";

/// The template of a model.
#[derive(Debug)]
pub(crate) struct Template {
    source: String,
    begin: String,
    end: String,
}

impl Template {
    /// The template in a GGUF file.
    ///
    /// # Errors
    /// [`ModelError::Gguf`] if there is none; [`ModelError::Configuration`] if it is invalid.
    pub(crate) fn from_gguf(
        gguf: &Gguf<'_>,
        vocabulary: &TokenVocabulary,
    ) -> Result<Self, ModelError> {
        let source = gguf.text("tokenizer.chat_template")?.to_owned();
        environment(0).template_from_named_str(NAME, &source).map_err(|cause| {
            ModelError::Configuration { detail: format!("its chat template is broken: {cause}") }
        })?;
        let [begin, end] = vocabulary.spelling_of_ends();
        Ok(Self { source, begin, end })
    }

    /// The tokens of a conversation, up to the start of the answer.
    ///
    /// # Errors
    /// [`TemplateError`].
    pub(crate) fn tokens(
        &self,
        messages: &[ChatMessage],
        vocabulary: &TokenVocabulary,
    ) -> Result<Vec<u32>, TemplateError> {
        let rendered = self.render(messages)?;
        tokens(&rendered, vocabulary).map_err(TemplateError::Engine)
    }

    fn render(&self, messages: &[ChatMessage]) -> Result<Rendered, TemplateError> {
        let environment = environment(messages.len() as u64);
        let turns: Vec<minijinja::Value> = messages
            .iter()
            .map(|message| {
                context! { role => name(message.role), content => given(&message.content) }
            })
            .collect();
        let values = context! {
            messages => turns,
            add_generation_prompt => true,
            bos_token => self.begin.as_str(),
            eos_token => self.end.as_str(),
        };
        match environment.render_named_str(NAME, &self.source, values) {
            Ok(text) => Ok(Rendered::new(&text)),
            Err(cause) => {
                let said = Rendered::new(&cause.to_string()).text;
                Err(TemplateError::Template(said.chars().take(SAID).collect()))
            }
        }
    }
}

/// Why a conversation could not be rendered.
#[derive(Debug)]
pub(crate) enum TemplateError {
    /// The template failed, with an excerpt of its error message.
    Template(String),
    /// The tokenizer failed.
    Engine(ModelError),
}

/// The Jinja settings of `transformers`: a block tag does not leave an empty line.
fn environment<'a>(messages: u64) -> Environment<'a> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("the delimiters are those of Jinja"));
    environment.set_fuel(Some(STEPS + STEPS_PER_MESSAGE.saturating_mul(messages)));
    environment.add_function("raise_exception", |why: String| {
        Err::<String, _>(Error::new(ErrorKind::InvalidOperation, why))
    });
    environment
}

fn name(role: ChatRole) -> &'static str {
    match role {
        ChatRole::System => "system",
        ChatRole::User => "user",
        ChatRole::Assistant => "assistant",
        ChatRole::Tool => "tool",
    }
}

/// Marks the characters of a message. White space stays unmarked, so that templates can trim it.
fn given(text: &str) -> String {
    let mut marked = String::with_capacity(text.len() * 2);
    for character in text.chars() {
        if !character.is_whitespace() {
            marked.push(GIVEN);
        }
        marked.push(character);
    }
    marked
}

/// A rendered conversation with the ranges of its messages.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rendered {
    text: String,
    /// Byte ranges of `text`, in order.
    given: Vec<Range<usize>>,
}

impl Rendered {
    fn new(marked: &str) -> Self {
        let mut rendered = Self::default();
        let mut characters = marked.chars();
        while let Some(character) = characters.next() {
            let start = rendered.text.len();
            if character != GIVEN {
                rendered.text.push(character);
            } else if let Some(given) = characters.next() {
                rendered.text.push(given);
                rendered.give(start..rendered.text.len());
            }
        }
        rendered
    }

    /// White space between two marked parts counts as marked, so no special token can begin or end in it.
    fn give(&mut self, range: Range<usize>) {
        if let Some(last) = self.given.last_mut()
            && self.text[last.end..range.start].chars().all(char::is_whitespace)
        {
            last.end = range.end;
        } else {
            self.given.push(range);
        }
    }
}

/// Tokenises the template's special tokens as such and everything else as text.
fn tokens(rendered: &Rendered, vocabulary: &TokenVocabulary) -> Result<Vec<u32>, ModelError> {
    let Rendered { text, given } = rendered;
    let mut ids = Vec::new();
    let mut given = given.iter().peekable();
    let (mut done, mut at) = (0, 0);
    while at < text.len() {
        // Special tokens are not recognised inside a message.
        while given.next_if(|range| range.end <= at).is_some() {}
        let next = given.peek();
        if let Some(range) = next.filter(|range| range.start <= at) {
            at = range.end;
            continue;
        }
        let limit = next.map_or(text.len(), |range| range.start);
        if let Some((length, id)) = vocabulary.mark_at(&text[at..limit]) {
            if done < at {
                ids.extend(vocabulary.encode(&text[done..at])?);
            }
            ids.push(id);
            at += length;
            done = at;
        } else {
            at = text.ceil_char_boundary(at + 1);
        }
    }
    if done < text.len() {
        ids.extend(vocabulary.encode(&text[done..])?);
    }
    if let Some(first) = vocabulary.first().filter(|first| ids.first() != Some(first)) {
        ids.insert(0, first);
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(text: &str) -> Rendered {
        Rendered::new(&format!("<|im_start|>{}<|im_end|>", given(text)))
    }

    #[test]
    fn messages_are_rendered_completely_and_marked() {
        for text in ["", "hello there", "<|im_end|>", "\u{fdd0}", "a\u{fdd0}\u{fdd0} b", "é\n🚀"]
        {
            let rendered = passed(text);
            assert_eq!(rendered.text, format!("<|im_start|>{text}<|im_end|>"));
            let theirs: Vec<&str> =
                rendered.given.iter().map(|range| &rendered.text[range.clone()]).collect();
            let expected: &[&str] = if text.is_empty() { &[] } else { &[text] };
            assert_eq!(theirs, expected, "{text:?}");
        }
    }

    #[test]
    fn a_template_can_trim_a_message() {
        let environment = environment(1);
        let rendered =
            environment.render_str("[{{ text|trim }}]", context! { text => given("  a b\n") });
        assert_eq!(Rendered::new(&rendered.unwrap()).text, "[a b]");
    }

    #[test]
    fn an_endless_template_is_stopped() {
        let source =
            "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}";
        let template =
            Template { source: source.to_owned(), begin: String::new(), end: String::new() };
        assert!(matches!(template.render(&[]), Err(TemplateError::Template(_))));
    }
}
