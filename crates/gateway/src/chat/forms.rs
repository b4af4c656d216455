//! Members of a request that have several forms, and lists with a limit.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The most parts of a message, and calls in one.
pub(super) const PARTS_MAX: usize = 2_000;

/// The most stop sequences, and tiers to escalate to.
pub(super) const NAMES_MAX: usize = 64;

/// The content of a message.
#[derive(Debug, Default)]
pub(super) enum ContentBody {
    #[default]
    Nothing,
    Text(String),
    Parts(Vec<PartBody>),
}

/// A part of a message. It takes little more memory than its text, because a request can have many.
#[derive(Debug)]
pub(super) enum PartBody {
    Text(String),
    Refusal(String),
    Image(Box<ImageBody>),
    /// A part of another type, or without the member that its type needs.
    Other(String),
}

impl<'de> Deserialize<'de> for PartBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(expecting = "an object with `type`")]
        struct Members {
            #[serde(rename = "type")]
            kind: String,
            #[serde(default)]
            text: Option<String>,
            #[serde(default)]
            refusal: Option<String>,
            #[serde(default)]
            image_url: Option<ImageBody>,
        }
        let Members { kind, text, refusal, image_url } = Members::deserialize(deserializer)?;
        let part = match kind.as_str() {
            "text" => text.map(PartBody::Text),
            "refusal" => refusal.map(PartBody::Refusal),
            "image_url" => image_url.map(|image| PartBody::Image(Box::new(image))),
            _ => None,
        };
        Ok(part.unwrap_or(PartBody::Other(kind)))
    }
}

/// An image: its address alone, or with the resolution.
#[derive(Debug)]
pub(super) struct ImageBody {
    pub(super) url: String,
    pub(super) detail: Option<String>,
}

/// A list with at most `MAX` items.
#[derive(Debug)]
pub(super) struct Bounded<T, const MAX: usize>(pub(super) Vec<T>);

impl<T, const MAX: usize> Default for Bounded<T, MAX> {
    fn default() -> Self {
        Bounded(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Bounded<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor<T, const MAX: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for ListVisitor<T, MAX> {
            type Value = Bounded<T, MAX>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an array")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<Self::Value, S::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    if list.len() == MAX {
                        return Err(S::Error::custom(format!("more than {MAX} items")));
                    }
                    list.push(item);
                }
                Ok(Bounded(list))
            }
        }
        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}

impl<'de> Deserialize<'de> for ContentBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;
        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = ContentBody;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text or a list of parts")
            }

            fn visit_unit<E>(self) -> Result<ContentBody, E> {
                Ok(ContentBody::Nothing)
            }

            fn visit_str<E>(self, text: &str) -> Result<ContentBody, E> {
                Ok(ContentBody::Text(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<ContentBody, E> {
                Ok(ContentBody::Text(text))
            }

            fn visit_seq<S: SeqAccess<'de>>(self, items: S) -> Result<ContentBody, S::Error> {
                let parts = serde::de::value::SeqAccessDeserializer::new(items);
                Bounded::<PartBody, PARTS_MAX>::deserialize(parts).map(|parts| ContentBody::Parts(parts.0))
            }
        }
        deserializer.deserialize_any(ContentVisitor)
    }
}

impl<'de> Deserialize<'de> for ImageBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ImageVisitor;
        impl<'de> Visitor<'de> for ImageVisitor {
            type Value = ImageBody;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object with `url`")
            }

            fn visit_str<E>(self, url: &str) -> Result<ImageBody, E> {
                Ok(ImageBody { url: url.to_owned(), detail: None })
            }

            fn visit_string<E>(self, url: String) -> Result<ImageBody, E> {
                Ok(ImageBody { url, detail: None })
            }

            fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<ImageBody, M::Error> {
                let (mut url, mut detail) = (None, None);
                while let Some(name) = members.next_key::<String>()? {
                    match name.as_str() {
                        "url" => url = Some(members.next_value()?),
                        "detail" => detail = members.next_value()?,
                        _ => {
                            members.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                let url = url.ok_or_else(|| M::Error::missing_field("url"))?;
                Ok(ImageBody { url, detail })
            }
        }
        deserializer.deserialize_any(ImageVisitor)
    }
}

/// One text or several.
#[derive(Debug, Default)]
pub(super) struct Stops(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for Stops {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StopsVisitor;
        impl<'de> Visitor<'de> for StopsVisitor {
            type Value = Stops;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text or a list of texts")
            }

            fn visit_str<E>(self, text: &str) -> Result<Stops, E> {
                Ok(Stops(vec![text.to_owned()]))
            }

            fn visit_seq<S: SeqAccess<'de>>(self, items: S) -> Result<Stops, S::Error> {
                let texts = serde::de::value::SeqAccessDeserializer::new(items);
                Bounded::<String, NAMES_MAX>::deserialize(texts).map(|texts| Stops(texts.0))
            }
        }
        deserializer.deserialize_any(StopsVisitor)
    }
}

/// Whether a member asks for something: null, false, zero and empty values do not.
#[derive(Debug, Default)]
pub(super) struct Asked(pub(super) bool);

impl<'de> Deserialize<'de> for Asked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AskedVisitor;
        impl<'de> Visitor<'de> for AskedVisitor {
            type Value = Asked;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("any value")
            }

            fn visit_unit<E>(self) -> Result<Asked, E> {
                Ok(Asked(false))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Asked, E> {
                Ok(Asked(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Asked, E> {
                Ok(Asked(value != 0))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Asked, E> {
                Ok(Asked(true))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Asked, E> {
                Ok(Asked(value != 0.0))
            }

            fn visit_str<E>(self, _: &str) -> Result<Asked, E> {
                Ok(Asked(true))
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<Asked, S::Error> {
                let mut is_asked = false;
                while items.next_element::<IgnoredAny>()?.is_some() {
                    is_asked = true;
                }
                Ok(Asked(is_asked))
            }

            fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<Asked, M::Error> {
                let mut is_asked = false;
                while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    is_asked = true;
                }
                Ok(Asked(is_asked))
            }
        }
        deserializer.deserialize_any(AskedVisitor)
    }
}
