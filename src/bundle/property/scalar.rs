//! The values of properties as they are written in the file, before YAML takes `4.20` for the number 4.2.

use std::collections::BTreeMap;

use granit_parser::{Event, Parser};

/// A container that is open, and what is known of the place in it.
#[derive(Debug, PartialEq, Eq)]
enum Frame {
    /// A list: how many items began.
    List(usize),
    /// An object: the key whose value comes next.
    Object(Option<String>),
}

/// The plain text of each scalar at `properties[i].value`, by `i`. A file that is no YAML has none.
pub(super) fn texts(bytes: &[u8]) -> BTreeMap<usize, String> {
    let mut texts = BTreeMap::new();
    let Ok(text) = std::str::from_utf8(bytes) else {
        return texts;
    };
    let mut frames: Vec<Frame> = Vec::new();
    let mut parser = Parser::new_from_str(text);
    while let Some(Ok((event, _))) = parser.next_event() {
        match event {
            Event::DocumentEnd | Event::StreamEnd => break,
            Event::SequenceStart(..) => {
                place_of_value(&mut frames);
                frames.push(Frame::List(0));
            }
            Event::MappingStart(..) => {
                place_of_value(&mut frames);
                frames.push(Frame::Object(None));
            }
            Event::SequenceEnd | Event::MappingEnd => {
                frames.pop();
            }
            Event::Alias(_) => {
                place_of_value(&mut frames);
            }
            Event::Scalar(scalar, ..) => {
                if let Some(Frame::Object(key @ None)) = frames.last_mut() {
                    *key = Some(scalar.into_owned());
                } else {
                    let at = property_value(&frames);
                    place_of_value(&mut frames);
                    if let Some(index) = at {
                        texts.insert(index, scalar.into_owned());
                    }
                }
            }
            _ => {}
        }
    }
    texts
}

/// Moves on past the value that begins now.
fn place_of_value(frames: &mut [Frame]) {
    match frames.last_mut() {
        Some(Frame::List(begun)) => *begun += 1,
        // A container as a key is the value of no key.
        Some(Frame::Object(key)) => *key = None,
        None => {}
    }
}

/// The index of the property whose value comes next, if it does.
fn property_value(frames: &[Frame]) -> Option<usize> {
    match frames {
        [
            Frame::Object(_),
            Frame::List(begun),
            Frame::Object(Some(key)),
        ] if key == "value" => begun.checked_sub(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_found_as_written() {
        let file = b"properties:\n- type: a\n  value: 4.20\n- value: {x: 1}\n- {type: b, value: \"q\"}\n- value: 010\n";
        assert_eq!(
            texts(file),
            BTreeMap::from([
                (0, "4.20".to_owned()),
                (2, "q".to_owned()),
                (3, "010".to_owned())
            ])
        );
        assert_eq!(texts(b"a: [b"), BTreeMap::new());
        assert_eq!(texts(&[0xff]), BTreeMap::new());
    }
}
