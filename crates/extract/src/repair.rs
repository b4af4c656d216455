//! The kinds of repair and their costs.

use serde::Serialize;
use serde_json::Value;

/// One change between the text and the value, at one location of the value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Repair {
    /// The kind of change, with its class (lossless or lossy) and cost.
    pub kind: RepairKind,
    /// JSON Pointer of the location in the resulting value; for a dropped property, its former location.
    pub pointer: String,
    /// The text or value before the change; null if not applicable.
    pub from: Value,
    /// The value after the change; null if not applicable.
    pub to: Value,
}

macro_rules! repair_kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $class:ident, $cost:literal;)+) => {
        /// The kind of a repair. Lossless kinds cannot alter the data; lossy kinds interpret it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum RepairKind {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl RepairKind {
            /// All kinds, in the order of the documentation.
            pub const ALL: &'static [RepairKind] = &[$(RepairKind::$variant,)+];

            /// Returns the name used in receipts.
            pub fn name(self) -> &'static str {
                match self { $(RepairKind::$variant => $name,)+ }
            }

            /// Returns whether this kind can never alter the data, so that strict mode allows it.
            pub fn is_lossless(self) -> bool {
                match self { $(RepairKind::$variant => repair_kinds!(@$class),)+ }
            }

            /// Returns the cost of this kind; the candidate with the lowest total cost is selected.
            pub(crate) fn cost(self) -> u32 {
                match self { $(RepairKind::$variant => $cost,)+ }
            }

            /// Returns the description of the change, in one sentence.
            pub fn describe(self) -> &'static str {
                match self { $(RepairKind::$variant => concat!($($doc),+).trim_ascii(),)+ }
            }
        }
    };
    (@lossless) => { true };
    (@lossy) => { false };
}

repair_kinds! {
    /// Text, fences or tags around the document were left out.
    TextRemoved = "text_removed", lossless, 0;
    /// One of several documents satisfies the schema and was taken; the others were left out.
    DocumentChosen = "document_chosen", lossless, 0;
    /// Several documents were put into one array, in order.
    DocumentsListed = "documents_listed", lossless, 1;
    /// A document that was escaped as a whole was unescaped.
    DocumentUnescaped = "document_unescaped", lossless, 1;
    /// A comment was removed.
    CommentRemoved = "comment_removed", lossless, 0;
    /// A missing comma was added.
    CommaAdded = "comma_added", lossless, 1;
    /// A leading, trailing or doubled comma was removed.
    CommaRemoved = "comma_removed", lossless, 0;
    /// A missing or different separator between key and value became a colon.
    ColonAdded = "colon_added", lossless, 1;
    /// Quotes of another kind became double quotes.
    QuotesChanged = "quotes_changed", lossless, 0;
    /// A key without quotes was quoted.
    KeyQuoted = "key_quoted", lossless, 0;
    /// A literal of another language became its JSON form.
    LiteralChanged = "literal_changed", lossless, 0;
    /// A tuple became an array.
    TupleChanged = "tuple_changed", lossless, 0;
    /// A raw control character in a string was escaped.
    ControlEscaped = "control_escaped", lossless, 0;
    /// A quote inside a string was escaped.
    QuoteEscaped = "quote_escaped", lossless, 1;
    /// An escape sequence that JSON does not have was written as JSON has it.
    EscapeChanged = "escape_changed", lossless, 0;
    /// A number was written in JSON's notation without changing its value.
    NumberChanged = "number_changed", lossless, 0;
    /// Strings joined by an operator became one.
    StringsJoined = "strings_joined", lossless, 1;
    /// White space that JSON does not allow was removed.
    SpaceRemoved = "space_removed", lossless, 0;
    /// A missing closing bracket was added after a complete value.
    BracketAdded = "bracket_added", lossless, 2;
    /// The same key occurred twice with the same value; one was left out.
    RepeatRemoved = "repeat_removed", lossless, 1;

    /// A document that was cut off was completed.
    Completed = "completed", lossy, 10;
    /// A string without its closing quote was ended where it most likely ends.
    QuoteAdded = "quote_added", lossy, 8;
    /// A raw line break just before the closing quote of a string was taken for layout.
    LineEndRemoved = "line_end_removed", lossy, 1;
    /// The shared indentation and outer line breaks of a block of text were taken for layout.
    IndentRemoved = "indent_removed", lossy, 1;
    /// A quote that may as well have ended the string was taken as part of it, or the other way round.
    QuoteGuessed = "quote_guessed", lossy, 5;
    /// Backslashes that could be escapes were taken as literal, because others in the string are literal.
    EscapeGuessed = "escape_guessed", lossy, 3;
    /// A bracket of the wrong kind or at the wrong place was replaced or ignored.
    BracketChanged = "bracket_changed", lossy, 6;
    /// A value without quotes was read as a string.
    ValueQuoted = "value_quoted", lossy, 3;
    /// A value that is not well-formed was kept, as it stands, as a string.
    TextKept = "text_kept", lossy, 12;
    /// Text between values that is neither value nor comment was left out.
    TextDropped = "text_dropped", lossy, 12;
    /// An ellipsis that stands for left-out items was removed.
    EllipsisRemoved = "ellipsis_removed", lossy, 4;
    /// A key without a value was given null.
    NullAdded = "null_added", lossy, 8;
    /// Values in braces without keys became an array.
    SetChanged = "set_changed", lossy, 4;
    /// A function call was replaced by its only argument.
    CallRemoved = "call_removed", lossy, 4;
    /// A hexadecimal, octal or binary number became a decimal one.
    RadixChanged = "radix_changed", lossy, 2;
    /// NaN or an infinity, which JSON does not have, became a string.
    SpecialNumber = "special_number", lossy, 4;
    /// A number beyond JSON's common range was rounded.
    NumberRounded = "number_rounded", lossy, 4;
    /// The same key occurred twice with different values; the last one was kept.
    DuplicateRemoved = "duplicate_removed", lossy, 10;
    /// Bytes or escapes that are no Unicode text became the replacement character.
    CharacterReplaced = "character_replaced", lossy, 6;

    /// The text itself was taken as the value of a string.
    TextTaken = "text_taken", lossy, 1;
    /// A number was read from a string.
    NumberRead = "number_read", lossy, 2;
    /// A number was read from the only figure in a text.
    NumberFound = "number_found", lossy, 12;
    /// A boolean was read from a string or number.
    BooleanRead = "boolean_read", lossy, 2;
    /// A null was read from a string that says so.
    NullRead = "null_read", lossy, 3;
    /// A number or boolean was written as a string.
    StringWritten = "string_written", lossy, 2;
    /// One of the allowed values was recognised by case, punctuation, accents or a unique mention.
    EnumMatched = "enum_matched", lossy, 2;
    /// A key was recognised by case, spacing or naming style.
    KeyRenamed = "key_renamed", lossy, 2;
    /// A single value became an array of one.
    ArrayWrapped = "array_wrapped", lossy, 4;
    /// An array of one was replaced by its item.
    ArrayUnwrapped = "array_unwrapped", lossy, 4;
    /// A wrapper object was replaced by its only content.
    ObjectUnwrapped = "object_unwrapped", lossy, 4;
    /// A value was put into the only property that can hold it.
    ObjectWrapped = "object_wrapped", lossy, 10;
    /// A property that the schema forbids was left out.
    PropertyDropped = "property_dropped", lossy, 3;
    /// An optional property whose value is null was left out.
    NullDropped = "null_dropped", lossy, 1;
    /// A missing property that may be null was given null.
    NullSupplied = "null_supplied", lossy, 3;
    /// A JSON document inside a string was parsed.
    StringParsed = "string_parsed", lossy, 2;
}

impl Serialize for RepairKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl std::fmt::Display for RepairKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}
