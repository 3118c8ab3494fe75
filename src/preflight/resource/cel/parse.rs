//! CEL text to an expression; macros are expressions of their own.
//!
//! Grammar: `cel-spec/doc/langdef.md`, with the optional syntax (`?.`, `[?…]`) and backquoted names.

mod lexer;

use super::library;
use super::syntax::{Expression, Literal, Macro, Operator, ParseError};
use crate::preflight::resource::pattern;
use lexer::{Lexer, Token};

/// How deep expressions may be nested.
const DEEPEST: u32 = 100;

/// Reads a whole text.
pub(super) fn parse(text: &str) -> Result<Expression, ParseError> {
    let mut parser = Parser {
        tokens: Lexer::new(text).tokens()?,
        at: 0,
        depth: 0,
    };
    let expression = parser.expression()?;
    match parser.peek() {
        None => Ok(expression),
        Some(token) => Err(ParseError::Syntax(format!("unexpected {token}"))),
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: u32,
}

type Parsed = Result<Expression, ParseError>;

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    /// Takes the sign if it is the next token.
    fn take(&mut self, sign: &'static str) -> bool {
        let is_next = matches!(self.peek(), Some(Token::Sign(next)) if *next == sign);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), ParseError> {
        if self.take(sign) {
            return Ok(());
        }
        Err(ParseError::Syntax(match self.peek() {
            Some(token) => format!("unexpected {token} where {sign} should be"),
            None => format!("it ends where {sign} should be"),
        }))
    }

    fn expression(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(ParseError::Unsupported("so deep an expression".to_owned()));
        }
        let condition = self.or()?;
        let expression = if self.take("?") {
            let yes = self.or()?;
            self.expect(":")?;
            let no = self.expression()?;
            Expression::Choice(Box::new(condition), Box::new(yes), Box::new(no))
        } else {
            condition
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn or(&mut self) -> Parsed {
        let mut left = self.and()?;
        while self.take("||") {
            left = Expression::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Parsed {
        let mut left = self.relation()?;
        while self.take("&&") {
            left = Expression::And(Box::new(left), Box::new(self.relation()?));
        }
        Ok(left)
    }

    fn binary(
        &mut self,
        operators: &[(&'static str, Operator)],
        operand: fn(&mut Self) -> Parsed,
    ) -> Parsed {
        let mut left = operand(self)?;
        loop {
            let found = operators.iter().find(|(sign, _)| self.take(sign));
            let Some((_, operator)) = found else {
                return Ok(left);
            };
            let right = operand(self)?;
            left = Expression::Binary(*operator, Box::new(left), Box::new(right));
        }
    }

    fn relation(&mut self) -> Parsed {
        const RELATIONS: [(&str, Operator); 7] = [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
            ("in", Operator::In),
        ];
        self.binary(&RELATIONS, Self::sum)
    }

    fn sum(&mut self) -> Parsed {
        self.binary(
            &[("+", Operator::Add), ("-", Operator::Subtract)],
            Self::product,
        )
    }

    fn product(&mut self) -> Parsed {
        const PRODUCTS: [(&str, Operator); 3] = [
            ("*", Operator::Multiply),
            ("/", Operator::Divide),
            ("%", Operator::Remainder),
        ];
        self.binary(&PRODUCTS, Self::unary)
    }

    fn unary(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(ParseError::Unsupported("so deep an expression".to_owned()));
        }
        let expression = if self.take("!") {
            Expression::Not(Box::new(self.unary()?))
        } else if self.take("-") {
            match self.peek() {
                // The least number has no positive counterpart.
                Some(Token::LeastInt) => {
                    self.at += 1;
                    Expression::Literal(Literal::Int(i64::MIN))
                }
                _ => Expression::Negate(Box::new(self.unary()?)),
            }
        } else {
            self.member()?
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn member(&mut self) -> Parsed {
        let mut of = self.primary()?;
        loop {
            if self.take(".") {
                let is_optional = self.take("?");
                let field = self.name()?;
                of = if !is_optional && self.take("(") {
                    let arguments = self.arguments(")")?;
                    call(Some(of), field, arguments)?
                } else {
                    Expression::Select {
                        of: Box::new(of),
                        field,
                        is_optional,
                    }
                };
            } else if self.take("[") {
                let is_optional = self.take("?");
                let index = Box::new(self.expression()?);
                self.expect("]")?;
                of = Expression::Index {
                    of: Box::new(of),
                    index,
                    is_optional,
                };
            } else if matches!(self.peek(), Some(Token::Sign("{"))) {
                return Err(ParseError::Unsupported("a message".to_owned()));
            } else {
                return Ok(of);
            }
        }
    }

    fn name(&mut self) -> Result<String, ParseError> {
        match self.next() {
            Some(Token::Name(name)) => Ok(name),
            // A keyword is a name of a field.
            Some(Token::Sign("in")) => Ok("in".to_owned()),
            Some(token) => Err(ParseError::Syntax(format!(
                "unexpected {token} where a name should be"
            ))),
            None => Err(ParseError::Syntax(
                "it ends where a name should be".to_owned(),
            )),
        }
    }

    fn arguments(&mut self, end: &'static str) -> Result<Vec<Expression>, ParseError> {
        let mut arguments = Vec::new();
        while !self.take(end) {
            if !arguments.is_empty() {
                self.expect(",")?;
                if end == "]" && self.take(end) {
                    break;
                }
            }
            arguments.push(self.expression()?);
        }
        Ok(arguments)
    }

    fn primary(&mut self) -> Parsed {
        // A leading dot means the root scope, and there is only one.
        _ = self.take(".");
        match self.next() {
            Some(Token::Literal(literal)) => Ok(Expression::Literal(literal)),
            Some(Token::Name(name)) => match name.as_str() {
                "true" => Ok(Expression::Literal(Literal::Bool(true))),
                "false" => Ok(Expression::Literal(Literal::Bool(false))),
                "null" => Ok(Expression::Literal(Literal::Null)),
                _ if self.take("(") => {
                    let arguments = self.arguments(")")?;
                    call(None, name, arguments)
                }
                _ => Ok(Expression::Name(name)),
            },
            Some(Token::Sign("(")) => {
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Some(Token::Sign("[")) => self.list(),
            Some(Token::Sign("{")) => self.map(),
            Some(token) => Err(ParseError::Syntax(format!("unexpected {token}"))),
            None => Err(ParseError::Syntax("it ends too early".to_owned())),
        }
    }

    fn list(&mut self) -> Parsed {
        let mut items = Vec::new();
        while !self.take("]") {
            if !items.is_empty() {
                self.expect(",")?;
                if self.take("]") {
                    break;
                }
            }
            let is_optional = self.take("?");
            items.push((is_optional, self.expression()?));
        }
        Ok(Expression::List(items))
    }

    fn map(&mut self) -> Parsed {
        let mut entries = Vec::new();
        while !self.take("}") {
            if !entries.is_empty() {
                self.expect(",")?;
                if self.take("}") {
                    break;
                }
            }
            let is_optional = self.take("?");
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((is_optional, key, self.expression()?));
        }
        Ok(Expression::Map(entries))
    }
}

/// A call, which may be a macro.
fn call(of: Option<Expression>, function: String, mut arguments: Vec<Expression>) -> Parsed {
    let Some(of) = of else {
        if function == "has" && arguments.len() == 1 {
            return match arguments.pop() {
                Some(Expression::Select { of, field, .. }) => Ok(Expression::Has { of, field }),
                _ => Err(ParseError::Syntax("has() takes a field".to_owned())),
            };
        }
        return known_call(None, function, arguments);
    };
    if let Some((what, names)) = comprehension(&function, &arguments) {
        let parts = arguments.split_off(names);
        let names = arguments
            .into_iter()
            .map(|argument| match argument {
                Expression::Name(name) => Ok(name),
                _ => Err(ParseError::Syntax(format!("{function} takes a name first"))),
            })
            .collect::<Result<_, _>>()?;
        return Ok(Expression::Comprehension {
            what,
            over: Box::new(of),
            names,
            parts,
        });
    }
    // Functions in a room of their own.
    if let Expression::Name(room) = &of
        && matches!(
            room.as_str(),
            "sets" | "optional" | "math" | "base64" | "strings" | "lists" | "cel" | "ip" | "format"
        )
    {
        return known_call(None, format!("{room}.{function}"), arguments);
    }
    if function == "matches"
        && let [Expression::Literal(Literal::Text(text))] = arguments.as_slice()
    {
        let regex = pattern::compile(text)
            .ok_or_else(|| ParseError::Unsupported(format!("the expression {text:?}")))?;
        return Ok(Expression::Matches {
            of: Box::new(of),
            regex,
        });
    }
    known_call(Some(of), function, arguments)
}

fn known_call(of: Option<Expression>, function: String, arguments: Vec<Expression>) -> Parsed {
    if !library::knows(&function, of.is_some(), arguments.len()) {
        return Err(ParseError::Unsupported(format!("function {function}")));
    }
    Ok(Expression::Call {
        function,
        of: of.map(Box::new),
        arguments,
    })
}

/// Which macro a call is, and how many of its arguments are names.
fn comprehension(function: &str, arguments: &[Expression]) -> Option<(Macro, usize)> {
    let begins_with_name = matches!(arguments.first(), Some(Expression::Name(_)));
    Some(match (function, arguments.len()) {
        ("all", 2) => (Macro::All, 1),
        ("exists", 2) => (Macro::Exists, 1),
        ("exists_one" | "existsOne", 2) => (Macro::ExistsOne, 1),
        ("map", 2 | 3) if begins_with_name => (Macro::Map, 1),
        ("filter", 2) => (Macro::Filter, 1),
        ("all", 3) => (Macro::All, 2),
        ("exists", 3) => (Macro::Exists, 2),
        ("existsOne", 3) => (Macro::ExistsOne, 2),
        ("optMap", 2) => (Macro::OptMap, 1),
        ("optFlatMap", 2) => (Macro::OptFlatMap, 1),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refuses(text: &str, expected: &str) {
        assert_eq!(parse(text).unwrap_err().to_string(), expected);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        refuses("1 +", "it is not CEL: it ends too early");
        refuses("(1", "it is not CEL: it ends where ) should be");
        refuses("1 2", "it is not CEL: unexpected 2");
        refuses("a.b(c", "it is not CEL: it ends where , should be");
        refuses("'a", "it is not CEL: a text does not end");
        refuses("has(a)", "it is not CEL: has() takes a field");
        refuses(
            "semver('1.0.0') == self",
            "function semver is not evaluated here",
        );
        refuses(
            "format.uri().validate(self)",
            "function format.uri is not evaluated here",
        );
        refuses("self.isURL()", "function isURL is not evaluated here");
        refuses("Thing{a: 1}", "a message is not evaluated here");
        refuses(
            "self.matches('(?!a)')",
            "the expression \"(?!a)\" is not evaluated here",
        );
        refuses(
            &"(".repeat(200),
            "so deep an expression is not evaluated here",
        );
        refuses(
            &"!".repeat(200),
            "so deep an expression is not evaluated here",
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[-a-c0-9.'\"\\\\?:!&|()\\[\\]{}<>=,+*/ `ruin]{0,40}") {
            _ = parse(&text);
        }
    }
}
