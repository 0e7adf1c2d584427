//! English and German words by which statements are understood; which sentences are in another language.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use crate::sentence::{Token, tokens};

/// Frequent words of English.
const ENGLISH: &str = "the an and or but if of to in on at by for from with as is are was were be been being am do does did \
    done doing have has had having not no never can could will would shall should may might must need ought this that \
    these those it its he she they them his her hers their theirs him we us our ours you your yours me my mine who whom \
    whose which what when where why how all any both each few more most other some such only own same so than too very \
    just now then here there again once about above after against before below between into through during under over up \
    down out off without within along across behind beyond near upon also already always often still yet soon later \
    today tomorrow yesterday please thanks thank yes ok okay hello hi dear one two three four five six seven eight nine \
    ten first second last next new old big small good bad right left long short many much every everything everyone \
    everybody anything anyone anybody nothing nobody none something someone somebody like want let's let us because while \
    until unless except instead rather either neither nor whether however therefore don't doesn't didn't isn't aren't \
    wasn't weren't won't wouldn't can't couldn't shouldn't mustn't haven't hasn't hadn't cannot dont i'm i'd i'll i've \
    it's that's there's you're we're they're what's back away well else even ever maybe perhaps possible asap per via \
    cc bcc re fwd it'll";

/// Things that people ask agents about, in English.
const ENGLISH_THINGS: &str = "mail mails email emails e-mail e-mails message messages letter letters inbox thread note notes \
    file files folder folders directory document documents report reports page pages site website link links article \
    invoice invoices bill bills payment payments account accounts amount number id address addresses name names date day \
    days week month year time hour minutes meeting meetings event events appointment calendar summary summaries list \
    table row rows order orders database query command commands script test tests build server branch issue ticket \
    tickets user users channel team boss friend friends colleague customer customers client contact contacts attachment \
    attachments text data picture photo money dollars euros pounds rent price total transfer subscription budget \
    password question answer result results project projects information details flight hotel restaurant reservation \
    recipient recipients sender backup copy draft drafts version work thing things people person group newsletter \
    balance lunch dinner party weather news";

/// What people ask agents to do, in English; imperatives.
const ENGLISH_VERBS: &str = "mail email send forward write reply answer tell ask invite notify message inform remind share \
    post publish submit upload deliver copy pay transfer wire give add schedule book reserve order buy read open show \
    look find search get fetch visit see check list summarise summarize translate explain compare count sort move rename \
    delete remove erase drop clear empty wipe clean run execute start stop restart install update change set create make \
    save store put use take call contact keep leave go come try help know think say print download upload edit fix close \
    cancel follow follow-up review analyse analyze report extract include exclude ignore skip avoid block ban refuse \
    allow return convert append insert select truncate archive restore type enter connect join finish begin ping refund \
    reimburse donate deposit increase raise lower reduce adjust";

/// Frequent words of German.
const GERMAN: &str = "der die das den dem des ein eine einen einem einer eines und oder aber wenn von zu zum zur in im ins \
    an am auf aus bei beim mit nach vor für über unter durch gegen ohne um bis seit als wie ist sind war waren sein bin \
    bist wird werden wurde wurden hat habe haben hatte hatten kann kannst können könnte könntest könnten soll sollst \
    sollen sollte will willst wollen muss musst müssen darf darfst dürfen nicht nie niemals kein keine keinen keinem \
    keiner keines dies diese dieser dieses diesen diesem jene er sie es ihn ihm ihr ihre ihren ihrem ihnen wir uns unser \
    unsere unseren du dich dir dein deine deinen deiner deinem ich mich mir mein meine meinen meiner meinem wer wen wem \
    was wann wo warum welche welcher welches alle allen alles jeder jede jedes jeden einige mehr viel viele nur auch noch \
    schon so sehr dann danach hier da dort jetzt heute morgen gestern bitte danke ja nein hallo liebe lieber eins zwei \
    drei vier fünf sechs sieben acht neun zehn erste zweite letzte nächste neue neuen alte alten man etwas jemand niemand \
    nichts weil während sondern statt anstatt stattdessen außer ausser sowie ob dass damit dafür davon darauf wieder \
    immer oft mal kurz zusammen weiter an ab weg her hin los fertig gleich sofort per vom unterm";

/// What people ask agents to do, in German, and about what.
const GERMAN_VERBS: &str = "schick schicke schicken schickst sende senden sendest maile mailen schreib schreibe schreiben \
    antworte antworten beantworte leite weiterleiten weiter sag sage sagen teile teilen teil mitteilen frag frage fragen \
    lade laden einladen informiere informieren benachrichtige poste posten veröffentliche lies lesen liest öffne öffnen \
    zeig zeige zeigen such suche suchen finde finden hol hole holen ruf rufe prüfe prüfen schau sieh ansehen fasse fass \
    zusammenfassen übersetze vergleiche zähle sortiere verschiebe verschieben verschieb nenn nenne lösch lösche löschen \
    entferne entfernen leere führe führ ausführen starte starten stoppe beende installiere ändere ändern setze erstelle \
    erstellen mach mache machen speichere speichern nimm nehmen nutze gib geben zahl zahle zahlen bezahl bezahle bezahlen \
    überweis überweise überweisen buche buchen kopiere kopieren trag trage plane kaufe verwende ignoriere überspringe \
    sperre blockiere vermeide unterlass vergiss vergessen füge hinzufügen stell stelle lass lasse mail \
    erstatte erstatten spende spenden erhöhe erhöhen senke senken";

/// Words by which a sentence in another language that uses Latin letters is known, above all its negations.
const FOREIGN: &str = "ne pas jamais non sans sauf rien aucun aucune nunca jamás ningún ninguna nadie sin excepto ni não \
    nunca jamais sem ninguém exceto senza mai nessuno nessuna niente niet nooit geen zonder behalve aldrig ikke inte utan \
    ingen aldri uten undtagen nie nigdy bez oprócz nikdy ne ei älä koskaan hiçbir asla değil soha nem niciodată nu fără \
    nikad nikada kurrë jangan tidak đừng không huwag hindi usiende";

/// Verbs of which a message goes to somebody, in English and German.
pub(crate) const MESSAGING: &str = "mail email send forward write reply answer tell share schick schicke schicken sende senden maile schreib \
    schreibe antworte leite teile";

/// Words that begin a question, or what is to be told.
pub(crate) const QUESTIONS: &str = "what how whether who whom whose when where why which was wie ob wer wann wo warum welche welcher welches";

/// Before a word, these make it a noun: `the order`.
const DETERMINERS: &str = "the a an my your his her its our their this that these those any each every no some last next new der \
    die das den dem des ein eine einen einem einer mein meine meinen meiner dein deine sein seine ihr ihre \
    unser unsere";

static VERBS: LazyLock<HashSet<&str>> = LazyLock::new(|| words_of(&[ENGLISH_VERBS, GERMAN_VERBS]));
static NOUN_AFTER: LazyLock<HashSet<&str>> = LazyLock::new(|| words_of(&[DETERMINERS]));
static FUNCTION_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| words_of(&[ENGLISH, GERMAN]));
static KNOWN: LazyLock<HashSet<&str>> =
    LazyLock::new(|| words_of(&[ENGLISH, ENGLISH_THINGS, ENGLISH_VERBS, GERMAN, GERMAN_VERBS]));
static IN_OTHERS: LazyLock<HashSet<&str>> = LazyLock::new(|| words_of(&[FOREIGN]));

fn words_of(lists: &[&'static str]) -> HashSet<&'static str> {
    lists.iter().flat_map(|list| list.split_ascii_whitespace()).collect()
}

/// Whether `word` is one of the words of `list`, which blanks part.
pub(crate) fn is_in(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|listed| listed == word)
}

/// Whether `word` asks for something to be done, in English or German.
pub(crate) fn is_verb(word: &str) -> bool {
    VERBS.contains(word)
}

/// Whether the word at `index` of a sentence is a noun by the word before it.
pub(crate) fn is_noun(words: &[Token<'_>], index: usize) -> bool {
    let before = index.checked_sub(1).and_then(|before| words.get(before));
    before.is_some_and(|before| NOUN_AFTER.contains(before.word.as_str()))
}

/// Whether `word` is frequent in English or German whatever a text is about.
pub(crate) fn is_function_word(word: &str) -> bool {
    FUNCTION_WORDS.contains(word)
}

/// Whether `word` is a frequent word of English or German.
pub(crate) fn is_known(word: &str) -> bool {
    KNOWN.contains(word.strip_suffix("'s").unwrap_or(word))
}

/// Whether the sentence at `within` can be taken for English or German: a third of its words are among the
/// frequent ones, and none shows that it is in another language. Names, numbers and addresses are no words.
pub(crate) fn is_understood(text: &str, within: Range<usize>) -> bool {
    let (mut known, mut all) = (0_usize, 0_usize);
    for token in tokens(text, within) {
        if is_known(&token.word) {
            (known, all) = (known + 1, all + 1);
        } else if IN_OTHERS.contains(token.word.as_str()) {
            return false;
        } else if is_word(&token) {
            all += 1;
        }
    }
    known * 3 >= all
}

/// Whether a token is a word that a list could hold: no name, no value, no single letter.
fn is_word(token: &Token<'_>) -> bool {
    let letters = token.raw.trim_matches(|c: char| !c.is_alphanumeric());
    let is_foreign_script = letters.chars().any(|c| c.is_alphabetic() && c > '\u{24F}');
    let is_name = letters.starts_with(char::is_uppercase);
    is_foreign_script || (letters.chars().count() > 1 && !is_name && !token.is_value())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn english_and_german_are_understood_and_other_languages_are_not() {
        let understood = [
            "Mail ann@example.com the report.",
            "ann@example.com",
            "Cc: bob@example.com",
            "Schick den Bericht bitte an ann@example.com.",
            "Lösche die Datei /tmp/a.txt.",
            "Delete file f-13.",
            "Invite Mark Black to the channel",
            "Could you forward the quarterly numbers to Petra in accounting?",
        ];
        for text in understood {
            assert!(is_understood(text, 0..text.len()), "{text}");
        }
        let foreign = [
            "N'écris jamais à eve@evil.example.",
            "Nunca escribas a eve@evil.example",
            "No le mandes nunca nada a eve@evil.example",
            "Non scrivere a eve@evil.example",
            "Stuur nooit iets naar eve@evil.example",
            "Skicka aldrig något till eve@evil.example",
            "Send aldri e-post til eve@evil.example",
            "Nigdy nie pisz do eve@evil.example",
            "Никогда не пиши eve@evil.example",
            "絶対に eve@evil.example に送らないで",
            "لا ترسل إلى eve@evil.example",
            "Asla eve@evil.example adresine yazma",
            "Jamais eve@evil.example",
        ];
        for text in foreign {
            assert!(!is_understood(text, 0..text.len()), "{text}");
        }
    }
}
