//! Free text that leaves the machine: what in it leads somewhere, however it is spelled (G14).

use custody_arguments::{
    ArgumentOrigin, Arguments, Parameter, TextIndex, TextSink, ToolManifest, trace,
};
use proptest::prelude::*;
use serde_json::json;

/// Spellings of people, places and numbers. Each has to be found.
const SPELLINGS: &[&str] = &[
    // Addresses.
    "eve@evil.example",
    "eve@evil.zip",
    "Eve <eve@evil.co.uk>",
    "mailto:eve@evil.example",
    "eve@localhost",
    "eve @ evil.example",
    "eve@evil . example",
    "eve at evil dot example",
    "eve AT evil DOT co DOT uk",
    "eve (at) evil (dot) com",
    "eve [at] evil [dot] com",
    "eve{at}evil{dot}com",
    "eve[@]evil[.]com",
    "eve(@)evil.com",
    "eve-at-evil-dot-com",
    "eve_at_evil_dot_com",
    "eve&#64;evil&#46;example",
    "eve&#x40;evil&#x2e;example",
    "eve&commat;evil&period;example",
    "eve&amp;#64;evil.example",
    "eve%40evil%2Eexample",
    "eve%2540evil%252Eexample",
    "eve\\u0040evil\\u002eexample",
    "eve\\x40evil.example",
    "eve=40evil=2Eexample",
    "ｅｖｅ＠ｅｖｉｌ．ｅｘａｍｐｌｅ",
    "eve@evil\u{3002}example",
    "eve\u{200B}@\u{200B}evil.example",
    "e v e @ e v i l . c o m",
    "ZXZlQGV2aWwuZXhhbXBsZQ==",
    // Hosts and links.
    "https://evil.example/x",
    "hxxps://evil.example",
    "hxxps[:]//evil[.]example",
    "HTTPS:evil",
    "//evil.example/x",
    "//evil/x",
    "t.me/eve",
    "t.me",
    "evil.corp",
    "evil.internal",
    "evil.рф",
    "evil.xn--p1ai",
    "evil\u{FF0E}example",
    "evil\u{2024}example",
    "e\u{AD}vil.example",
    "evil.example:8080",
    "evil.sh/x",
    "www.evil.md",
    "evil dot com",
    "evil (dot) example",
    "evil [.] example",
    "[a page](//evil.example)",
    "javascript:alert(1)",
    "tel:+15550100",
    "skype:eve?call",
    "data:text/html,x",
    "ftp://evil",
    // IP addresses.
    "192.0.2.7",
    "0300.0.2.7",
    "0xC0.0x00.0x02.0x07",
    "0xC0000207",
    "3221225991",
    "127.1:8080",
    "0x7f.1",
    "[2001:db8::7]",
    "2001:db8:0:0:0:0:0:7",
    "::ffff:192.0.2.7",
    "fe80::1%eth0",
    // Numbers.
    "DE89370400440532013000",
    "DE89 3704 0044 0532 0130 00",
    "DE89\u{202F}3704\u{202F}0044\u{202F}0532\u{202F}0130\u{202F}00",
    "DE89-3704-0044-0532",
    "DE89_3704_0044",
    "DE89.3704.0044",
    "DE89|3704|0044",
    "DE89, 3704, 0044",
    "DE89·3704·0044",
    "DE89\n3704\n0044",
    "2024-05-15 37 04 00 44 05",
    "15.05.2024, 37, 04, 00, 44",
    "04:40 05:32 01:30 00:44",
    "+49 (0) 441 / 555-01 00",
    "３７０４００４４",
    "3\u{FE0F}\u{20E3}7\u{FE0F}\u{20E3}0\u{FE0F}\u{20E3}4\u{FE0F}\u{20E3}0\u{FE0F}\u{20E3}0\u{FE0F}\u{20E3}",
    "٣٧٠٤٠٠٤٤",
    "five five five zero one zero",
    "3 7 0 4 0 0 4 4",
    "&#51;&#55;&#48;&#52;&#48;&#48;",
    // Accounts and keys.
    "GB29NWBK60161331926819",
    "bc1q9x7-0042-7755",
    "0x52908400098527886E0F7830069857D2",
    "AKIAIOSFODNN7EXAMPLE",
    "sk-a8f3-99bb-2c1d",
    "550e8400-e29b-41d4-a716-446655440000",
    "00:1A:2B:3C:4D:5E",
    // More of each.
    "eve ( at ) evil ( dot ) com",
    "eve[at]evil.com",
    "eve＠evil。com",
    "https:\\\\evil.com",
    "https:/evil.com",
    "evil .com",
    "evil. com",
    "evil.com.",
    "ｔ．ｍｅ／ｅｖｅ",
    "wss://x",
    "ws:x",
    "www.evil",
    "evil dot io",
    "See collect dot evil dot test slash x",
    "evil dot host dot invalid",
    "(555) 0100 22",
    "555.01.00",
    "5 5 5 – 0 1 0",
    "DE 89 37 04 00 44",
    "one two three four five six",
    "eins zwei drei vier fünf sechs",
    "fünf fünf fünf null eins null",
    "\u{1F1E9}370400",
    "٣٧٠ ٤٠٠",
    "०१२३४५",
    "2130706433",
    "017700000001",
    "0x7f000001",
    "::1",
    "1.2.3.4",
    "eve@1.2.3.4",
    "eve@[1.2.3.4]",
    "eve.evil.example",
    "evil\u{0421}.com",
    "xn--80ak6aa92e.com",
    "evil%2ecom",
    "evil&#46com",
    "evil&period;com",
    "e-v-e-@-e-v-i-l-.-c-o-m",
    "moc.live@eve",
    "bitcoin:1A1zP1",
    "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
    "ghp_abcdefghijklmnopqrstuvwxyz012345",
    "IBAN: DE89\u{2009}3704\u{2009}0044",
    "call 0441/555/01/00",
    "5️⃣5️⃣5️⃣0️⃣1️⃣0️⃣",
    "370\u{2060}400\u{2060}44",
    "#37#04#00",
    "37a04b00c44",
    "eve (ät) evil (punkt) de",
    "eve\u{FE6B}evil\u{FE52}example",
    "magnet:?xt=urn:btih:c12fe1",
    "file:///etc/passwd",
    "\\\\evil\\share",
    "evil.example/%2e%2e",
    "//[::1]/x",
    "evil·example",
    "evil\u{30FB}example",
    "eve@evil",
    "http://2130706433/",
    "//2130706433",
    "E V E AT E V I L DOT C O M",
];

/// Ordinary sentences. In most of them nothing is found.
const PROSE: &[&str] = &[
    "Dear Ann, thank you for your letter of 15 May 2024.",
    "We meet on 2024-05-15 at 10:00 in room 12.",
    "The meeting is on 2024-05-15 from 10:00 to 12:30.",
    "Open Mon-Fri 9:00-12:00, 14:00-18:00.",
    "Termin: 15.05.2024, 9:30-11:00 Uhr.",
    "On 5/15/2024 we sold 450 pieces.",
    "In 2023, 450 people came; in 2024 there were 512.",
    "It costs $12.50, or $1,250.00 for a hundred.",
    "The price went from €12,500.00 to €13,000.00.",
    "Die Miete beträgt 1.250,50 € im Monat.",
    "Version 3.12.1 fixes what 3.11 broke.",
    "Upgrade from v1.2.3 to v1.3.0-rc2, please.",
    "See report.pdf and notes_final.docx.",
    "The code is in src/main.rs and lib/util.py.",
    "README.md says how to build it.",
    "Edit config.toml, e.g. the second line.",
    "I.e. nothing changes, etc.",
    "Meet me at 5 p.m. in front of the U.S. embassy.",
    "Dr. Smith and Mr. Jones will be there.",
    "Wait... what? No!",
    "Look at the dot product of both vectors.",
    "The ratio is 3:1, as in chapter 12:7.",
    "Note: this is a draft. Subject: lunch.",
    "Bring 2 kg of apples, 3 l of milk and 12 eggs.",
    "It grew by 12.5 %, from 30 to 34 points.",
    "Flight LH 454 leaves at 13:45 from gate B22.",
    "Please call me back, or write; either/or is fine.",
    "Chapter 3.4.5 is about mp3 files and i18n.",
    "He scored 98 of 100 and ran 10.5 km in 48:30.",
    "A COVID19 test costs 20 euros.",
    "Use std::vector or a.b, whichever is shorter.",
    "1. apples\n2. pears\n3. plums",
    "Yours sincerely,\nAnn Lee\nHead of Sales",
    "Liebe Kolleg:innen, wir treffen uns um 9:30.",
    "@ann said that she would be late.",
    "The 2nd and 3rd of May are holidays.",
    "It is 20 °C outside and 5 inside.",
    "She was born in 1932 and built 3 bridges.",
    "Ten to twelve people, two or three cars.",
    "C:\\Users holds them; see page 7.",
    "We will meet at noon: bring the contract.",
    "Q3 was better than Q2; see slides 4-9.",
    "The café's new menu (5 dishes) is great!",
    "Is it true that x = 10 and y = 20?",
    "A/B tests ran for 14 days with 2 groups.",
    "Ten per cent of 1,250 is 125.",
    "Family reunion on May 3rd, 2025, at 2 pm.",
    "The deadline is 2024-06; please hurry.",
    "Das kostet z.B. 5 Euro, d.h. nicht viel.",
    "Thanks for the 4.5/5 rating!",
    // What looks most like a number or a host.
    "Please find attached the invoice for April.",
    "Hi Bob, the train leaves at 8:15 and arrives at 12:47 (platform 5).",
    "Your order #4711 was shipped.",
    "Run `cargo test -p foo` and then `git push origin main`.",
    "Call os.path.join and self.name to get it.",
    "I paid 1 000 euros for it.",
    "The score was 21:15, 18:21, 15:9.",
    "We have 1,234,567 users.",
    "Room 101, floor 3, building 12, desk 7.",
    "Temperatures: 12, 14, 18, 21, 19 degrees.",
    "Population 83.2 million in 2021.",
    "Section 4(a)(2) of the act.",
    "Ingredients: 200 g flour, 100 ml milk, 3 eggs.",
    "See you tomorrow.Bring the papers.",
    "Node.js and ASP.NET are frameworks.",
    "The file is at docs/guides/intro.md, line 120.",
    "On Monday, 12.05., at 9.30 Uhr.",
    "Versions 3.11.7 and 3.12.1 work.",
    "Lat 53.14, lon 8.21.",
    "Invoice 2024-001 is due on 1 June.",
    "Size 10x15 cm, weight 1.5kg.",
    "Die Nutzer:innen-Umfrage lief gut.",
    "9/11, 24/7 and 50/50 are idioms.",
    "Dial 110 or 112.",
    "From 1939 to 1945.",
    "1932-1945 was dark.",
    "ISO 9001 and RFC 3986 apply.",
    "Total: $3,450.75 (incl. $120.00 tax)",
    "May 15th, 2024 10:00 AM - 11:30 AM",
    "2024-05-15T10:00:00Z",
    "Car rental from 2024-11-15 to 2024-11-17 for 3 days at 12:00.",
    "hotel for 11th to 15th Nov 2024, budget 300-400 EUR",
    "1 2 3 4 5 6",
    "The chat is at 10am; ping me @ 5.",
];

#[test]
fn g14_every_spelling_of_an_address_host_or_number_is_found() {
    let missed: Vec<&&str> = SPELLINGS
        .iter()
        .filter(|spelling| {
            let alone = TextSink::find(spelling).is_empty();
            let within =
                TextSink::find(&format!("Thanks! Please use {spelling} from now on.")).is_empty();
            alone || within
        })
        .collect();
    assert!(SPELLINGS.len() >= 60 && missed.is_empty(), "{missed:#?}");
}

/// Rows of numbers, code with points and a blank that is missing are taken for more than they are. A human is then
/// asked about a call that the user may have wanted; the figure stands in docs/reference/tool-calls.md.
#[test]
fn g14_ordinary_sentences_seldom_hold_sinks() {
    let found: Vec<(&str, Vec<TextSink>)> = PROSE
        .iter()
        .map(|text| (*text, TextSink::find(text)))
        .filter(|(_, found)| !found.is_empty())
        .collect();
    assert_eq!((found.len(), PROSE.len()), (11, 84), "{found:#?}");
}

#[test]
fn g14_what_is_written_in_a_disguise_is_not_the_users_although_they_said_it() {
    let mut texts = TextIndex::default();
    texts.add_user_text("Write to eve@evil.example, t.me/eve or DE89 3704 0044 0532.");
    let is_users = |body: &str| {
        let tool = ToolManifest {
            arguments: [("body".to_owned(), Default::default())].into(),
            ..ToolManifest::unknown()
        };
        let call = Arguments::parse(&json!({ "body": body }).to_string()).expect("I-JSON");
        let traced = trace(&tool, &call, &texts).into_recorded();
        let sinks: Vec<_> = traced.into_iter().filter(|value| value.sink.is_some()).collect();
        assert!(!sinks.is_empty(), "{body}");
        sinks.iter().all(|value| value.origin == ArgumentOrigin::User)
    };
    for said in [
        "see eve@evil.example.",
        "“t.me/eve”",
        "IBAN DE89 3704 0044 0532, please",
        "eve@EVIL.example",
    ] {
        assert!(is_users(said), "{said}");
    }
    for disguised in [
        "eve&#64;evil.example",
        "eve at evil dot example",
        "t[.]me/eve",
        "t.me/eve2",
        "DE89\u{202F}3704\u{202F}0044\u{202F}0532",
        "DE89370400440532",
        "eve\u{200B}@evil.example",
    ] {
        assert!(!is_users(disguised), "{disguised}");
    }
}

/// Each of these took time that grew with the square of the text in a version of the search.
#[test]
fn g14_a_long_text_of_any_kind_is_searched_once() {
    for part in [
        "eve@evil.example and %40 &#64; dot at 12 ",
        "123456a",
        "1@",
        "%ff",
        "%c3%a9",
        "&#1",
        "&amp;",
        "1.",
        "1-",
        "1  ",
        "a.",
        "a b ",
        "at dot ",
        "::1",
        "//",
        "\\u0040",
    ] {
        let text = part.repeat(300_000 / part.len());
        let found = TextSink::find(&text);
        let values: std::collections::HashSet<_> =
            found.iter().map(|sink| (sink.sink, &sink.value)).collect();
        assert_eq!(values.len(), found.len(), "each value is named once: {part}");
        let length: usize = found.iter().map(|sink| sink.value.len()).sum();
        assert!(length < 10 * text.len(), "{part}: {length}");
    }
}

/// A text with more sinks than a record keeps is asked about, and its record stays small.
#[test]
fn g14_a_text_of_many_places_is_nobodys_word() {
    let places: Vec<String> = (0..5_000).map(|n| format!("h{n}.example")).collect();
    let body = places.join(" ");
    let mut texts = TextIndex::default();
    texts.add_user_text(&body);
    let tool = ToolManifest {
        arguments: [("body".to_owned(), Parameter::default())].into(),
        ..ToolManifest::unknown()
    };
    let call = Arguments::parse(&json!({ "body": body }).to_string()).expect("I-JSON");
    let traced = trace(&tool, &call, &texts).into_recorded();
    assert!(traced.len() < 300, "{}", traced.len());
    let more = traced.iter().find(|value| value.path == "body > more").expect("it is named");
    assert_eq!(more.origin, ArgumentOrigin::Model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn g14_a_search_ends_on_any_text(
        any in ".{0,80}",
        signs in "[0-9a-fx.:/@&#;%\\\\=$, \n()\\[\\]-]{0,80}",
        words in "((eve|at|dot|evil|com|five|zero|12|2024|u0040|\u{ff10}|\u{e9})[ .@(-]{1,2}){0,12}",
    ) {
        for text in [any, signs, words] {
            for sink in TextSink::find(&text) {
                prop_assert!(!sink.value.is_empty());
                prop_assert!(!sink.is_plain || text.contains(&sink.value));
            }
        }
    }
}
