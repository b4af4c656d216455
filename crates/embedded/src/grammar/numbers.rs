//! Translates number ranges into regular expressions over their digits, without exponents.

use super::rx::Rx;

/// The most digits after the decimal point.
const FRACTION_DIGITS: usize = 6;

/// The bound of unlimited numbers, below which every integer is exact in a double.
const MAGNITUDE_MAX: i128 = 1_000_000_000_000_000;

/// The most multiples in a list, where no regular expression is known.
const MULTIPLES_LISTED: i128 = 1_000;

/// An inclusive or exclusive bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bound {
    pub(super) value: f64,
    pub(super) exclusive: bool,
}

/// The constraints of a number.
#[derive(Debug, Clone, Default)]
pub(super) struct Range {
    pub(super) least: Option<Bound>,
    pub(super) most: Option<Bound>,
    pub(super) integer: bool,
    pub(super) multiples: Vec<f64>,
    /// Divisors of which the number must not be a multiple.
    pub(super) indivisible: Vec<f64>,
}

/// Returns the numbers in a range; `None` if the range contains no number that can be written.
pub(super) fn in_range(range: &Range) -> Option<Rx> {
    let range = &Range {
        integer: range.integer || range.multiples.iter().any(|by| by.fract() == 0.0),
        ..range.clone()
    };
    let rx = match (range.multiples.as_slice(), range.indivisible.is_empty()) {
        ([], true) => unstepped(range)?,
        ([by], true) => stepped(range, *by)?,
        _ => listed(range)?,
    };
    rx.matches_something().unwrap_or(false).then_some(rx)
}

fn unstepped(range: &Range) -> Option<Rx> {
    if range.integer {
        let (least, most) = whole_limits(range)?;
        return integers(least, most).map(Rx::Regex);
    }
    let (least, most) = (range.least, range.most);
    let mut options = Vec::new();
    if most.is_none_or(|most| most.value >= 0.0) {
        let from = least.filter(|least| least.value >= 0.0);
        options.extend(magnitudes(from, most).map(|rx| Rx::Concat(vec![rx])));
    }
    if least.is_none_or(|least| least.value < 0.0) {
        let flip = |bound: Bound| Bound { value: -bound.value, ..bound };
        let from = most.filter(|most| most.value <= 0.0).map(flip);
        let from = Some(from.unwrap_or(Bound { value: 0.0, exclusive: true }));
        options.extend(
            magnitudes(from, least.map(flip)).map(|rx| Rx::Concat(vec![Rx::Literal("-".to_owned()), rx])),
        );
    }
    (!options.is_empty()).then_some(Rx::Or(options))
}

/// Returns the first and last integer of a range, limited to exactly representable values.
fn whole_limits(range: &Range) -> Option<(i128, i128)> {
    let least = range.least.map(|bound| {
        let whole = bound.value.ceil() as i128;
        if bound.exclusive && bound.value.fract() == 0.0 { whole.saturating_add(1) } else { whole }
    });
    let most = range.most.map(|bound| {
        let whole = bound.value.floor() as i128;
        if bound.exclusive && bound.value.fract() == 0.0 { whole.saturating_sub(1) } else { whole }
    });
    let limit = MAGNITUDE_MAX;
    let first = least.unwrap_or_else(|| most.map_or(-limit, |most| (-limit).min(most.saturating_mul(10))));
    let last = most.unwrap_or_else(|| limit.max(first.saturating_mul(10)));
    let (first, last) = (first.max(i128::from(i64::MIN)), last.min(i128::from(u64::MAX)));
    (first <= last).then_some((first, last))
}

/// Returns a regular expression for the integers from `least` to `most`.
fn integers(least: i128, most: i128) -> Option<String> {
    let mut options = Vec::new();
    if least < 0 {
        let from = if most < 0 { -most } else { 1 };
        options.push(format!("-{}", naturals(from, -least)));
    }
    if most >= 0 {
        options.push(naturals(least.max(0), most));
    }
    (least <= most).then(|| format!("(?:{})", options.join("|")))
}

fn naturals(least: i128, most: i128) -> String {
    let (first, last) = (least.to_string().into_bytes(), most.to_string().into_bytes());
    let mut options = Vec::new();
    if first.len() == last.len() {
        options.push(same_length(&first, &last));
    } else {
        options.push(at_least(&first));
        if last.len() > first.len() + 1 {
            options.push(format!("[1-9][0-9]{{{},{}}}", first.len(), last.len() - 2));
        }
        let lowest: Vec<u8> = (0..last.len()).map(|index| if index == 0 { b'1' } else { b'0' }).collect();
        options.push(same_length(&lowest, &last));
    }
    format!("(?:{})", options.join("|"))
}

fn digit(byte: u8) -> char {
    char::from(byte)
}

fn same_length(first: &[u8], last: &[u8]) -> String {
    match (first, last) {
        ([a, first @ ..], [b, last @ ..]) if a == b => format!("{}{}", digit(*a), same_length(first, last)),
        ([a, first @ ..], [b, last @ ..]) => {
            let mut options =
                vec![format!("{}{}", digit(*a), at_least(first)), format!("{}{}", digit(*b), at_most(last))];
            if b - a > 1 {
                options.push(format!("[{}-{}][0-9]{{{}}}", digit(a + 1), digit(b - 1), first.len()));
            }
            format!("(?:{})", options.join("|"))
        }
        _ => String::new(),
    }
}

/// Returns a regular expression for digit strings of the same length that are not smaller.
fn at_least(digits: &[u8]) -> String {
    match digits {
        [first, rest @ ..] if digits.iter().any(|byte| *byte != b'0') => {
            let equal = format!("{}{}", digit(*first), at_least(rest));
            match *first {
                b'9' => equal,
                first => format!("(?:{equal}|[{}-9][0-9]{{{}}})", digit(first + 1), rest.len()),
            }
        }
        _ => format!("[0-9]{{{}}}", digits.len()),
    }
}

/// Returns a regular expression for digit strings of the same length that are not larger.
fn at_most(digits: &[u8]) -> String {
    match digits {
        [first, rest @ ..] if digits.iter().any(|byte| *byte != b'9') => {
            let equal = format!("{}{}", digit(*first), at_most(rest));
            match *first {
                b'0' => equal,
                first => format!("(?:{equal}|[0-{}][0-9]{{{}}})", digit(first - 1), rest.len()),
            }
        }
        _ => format!("[0-9]{{{}}}", digits.len()),
    }
}

/// A non-negative decimal number, split into integer part and fraction digits.
struct Decimal {
    whole: i128,
    fraction: Vec<u8>,
    exclusive: bool,
}

fn decimal(bound: Bound) -> Decimal {
    let text = format!("{}", bound.value);
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = fraction.trim_end_matches('0').as_bytes().to_vec();
    Decimal { whole: whole.parse().unwrap_or(i128::from(u64::MAX)), fraction, exclusive: bound.exclusive }
}

/// Returns the non-negative decimal numbers between two bounds.
fn magnitudes(least: Option<Bound>, most: Option<Bound>) -> Option<Rx> {
    let any_fraction = format!("(?:\\.[0-9]{{1,{FRACTION_DIGITS}}})?");
    let lower = decimal(least.unwrap_or(Bound { value: 0.0, exclusive: false }));
    let ceiling = MAGNITUDE_MAX.max(lower.whole.saturating_mul(10));
    let mut above = vec![format!("{}{}", lower.whole, fraction_above(&lower))];
    above.extend(integers(lower.whole + 1, ceiling).map(|whole| format!("{whole}{any_fraction}")));
    let above = Rx::Regex(format!("(?:{})", above.join("|")));
    let Some(most) = most else { return Some(above) };
    let upper = decimal(most);
    let mut below: Vec<String> =
        integers(0, upper.whole - 1).map(|whole| format!("{whole}{any_fraction}")).into_iter().collect();
    below.extend(fraction_below(&upper).map(|fraction| format!("{}{fraction}", upper.whole)));
    (!below.is_empty()).then(|| above.and(Rx::Regex(format!("(?:{})", below.join("|")))))
}

/// Returns the fractions after the integer part of a bound for which the number is not below the bound.
fn fraction_above(bound: &Decimal) -> String {
    let more = FRACTION_DIGITS.saturating_sub(bound.fraction.len());
    let beyond =
        if bound.exclusive { format!("[0-9]{{0,{more}}}[1-9]") } else { format!("[0-9]{{0,{more}}}") };
    if bound.fraction.is_empty() {
        return if bound.exclusive {
            format!("\\.{beyond}")
        } else {
            format!("(?:\\.[0-9]{{1,{FRACTION_DIGITS}}})?")
        };
    }
    let text = |digits: &[u8]| String::from_utf8_lossy(digits).into_owned();
    let mut options = vec![format!("{}{beyond}", text(&bound.fraction))];
    for (index, byte) in bound.fraction.iter().enumerate().filter(|(_, byte)| **byte < b'9') {
        let same = bound.fraction.get(..index).map(text).unwrap_or_default();
        options.push(format!("{same}[{}-9][0-9]{{0,{FRACTION_DIGITS}}}", digit(byte + 1)));
    }
    format!("\\.(?:{})", options.join("|"))
}

/// Returns the fractions after the integer part of a bound for which the number is not above the bound.
fn fraction_below(bound: &Decimal) -> Option<String> {
    if bound.fraction.is_empty() {
        return (!bound.exclusive).then(|| "(?:\\.0)?".to_owned());
    }
    let text = |digits: &[u8]| String::from_utf8_lossy(digits).into_owned();
    let mut options = Vec::new();
    if !bound.exclusive {
        options.push(text(&bound.fraction));
    }
    for (index, byte) in bound.fraction.iter().enumerate().filter(|(_, byte)| **byte > b'0') {
        let same = bound.fraction.get(..index).map(text).unwrap_or_default();
        options.push(format!("{same}[0-{}][0-9]{{0,{FRACTION_DIGITS}}}", digit(byte - 1)));
    }
    if options.is_empty() { Some(String::new()) } else { Some(format!("(?:\\.(?:{}))?", options.join("|"))) }
}

/// Returns a positive number as a multiple of 10^-places, and the number of places.
fn in_units(number: f64) -> Option<(i128, usize)> {
    let parsed = decimal(Bound { value: number.abs(), exclusive: false });
    let places = parsed.fraction.len();
    let scale = 10_i128.checked_pow(u32::try_from(places).ok()?)?;
    let digits = String::from_utf8_lossy(&parsed.fraction).parse::<i128>().unwrap_or(0);
    let units = parsed.whole.checked_mul(scale)?.checked_add(digits)?;
    (units > 0).then_some((units, places))
}

/// Returns the multiples of `by` in a range.
fn stepped(range: &Range, by: f64) -> Option<Rx> {
    let (step, places) = in_units(by)?;
    let whole = unstepped(range)?;
    let is_power = step.to_string().trim_end_matches('0') == "1";
    if is_power && places == 0 {
        let zeros = step.to_string().len() - 1;
        return Some(whole.and(Rx::Regex(format!("-?(?:0|[1-9][0-9]*0{{{zeros}}}|10{{{zeros}}})"))));
    }
    if step == 1 {
        return Some(whole.and(Rx::Regex(format!("-?[0-9]+(?:\\.[0-9]{{1,{places}}})?"))));
    }
    if places == 0 && (step == 2 || step == 5) {
        let last = if step == 2 { "[02468]" } else { "[05]" };
        return Some(whole.and(Rx::Regex(format!("-?[0-9]*{last}"))));
    }
    listed(range)
}

fn greatest_common_divisor(left: i128, right: i128) -> i128 {
    if right == 0 { left } else { greatest_common_divisor(right, left % right) }
}

/// Returns a list of the numbers with a common step, at most [`MULTIPLES_LISTED`].
fn listed(range: &Range) -> Option<Rx> {
    let places =
        range.multiples.iter().filter_map(|by| in_units(*by)).map(|(_, places)| places).max().unwrap_or(0);
    let other =
        range.indivisible.iter().filter_map(|by| in_units(*by)).map(|(_, places)| places).max().unwrap_or(0);
    let places = places.max(other);
    let units = |number: f64| {
        let (units, own) = in_units(number)?;
        units.checked_mul(10_i128.checked_pow(u32::try_from(places - own).ok()?)?)
    };
    let one = 10_i128.checked_pow(u32::try_from(places).ok()?)?;
    let mut step = if range.integer || range.multiples.is_empty() { one } else { 1 };
    for by in &range.multiples {
        let by = units(*by)?;
        step = step.checked_mul(by)? / greatest_common_divisor(step, by);
    }
    let excluded: Vec<i128> = range.indivisible.iter().filter_map(|by| units(*by)).collect();
    let (scale, size) = (one as f64, step as f64 / one as f64);
    let first = match (range.least, range.most) {
        (Some(least), _) => (least.value / size).ceil() as i128,
        (None, Some(most)) if most.value < 0.0 => {
            ((most.value / size) as i128).saturating_sub(MULTIPLES_LISTED)
        }
        _ => 0,
    };
    let fits = |value: f64| {
        let above =
            range.least.is_none_or(|least| value > least.value || (value == least.value && !least.exclusive));
        let below =
            range.most.is_none_or(|most| value < most.value || (value == most.value && !most.exclusive));
        above && below
    };
    let mut options = Vec::new();
    for factor in first..first.saturating_add(2 * MULTIPLES_LISTED) {
        let scaled = factor.checked_mul(step)?;
        let is_excluded = excluded.iter().any(|by| scaled % by == 0);
        if fits(scaled as f64 / scale) && !is_excluded {
            options.push(Rx::Literal(with_places(scaled, places)));
        }
    }
    options.truncate(usize::try_from(MULTIPLES_LISTED).unwrap_or(usize::MAX));
    (!options.is_empty()).then_some(Rx::Or(options))
}

/// Formats a multiple of 10^-`places` as a decimal number.
fn with_places(units: i128, places: usize) -> String {
    let sign = if units < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", units.unsigned_abs(), width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    match fraction.trim_end_matches('0') {
        "" => format!("{sign}{whole}"),
        fraction => format!("{sign}{whole}.{fraction}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(value: f64, exclusive: bool) -> Option<Bound> {
        Some(Bound { value, exclusive })
    }

    #[test]
    fn in_range_matches_only_numbers_of_the_range() {
        let cases = [
            (
                Range { integer: true, ..Range::default() },
                vec!["0", "-7", "123"],
                vec!["-0", "01", "1.0", "1e5"],
            ),
            (
                Range {
                    integer: true,
                    least: bound(5.0, true),
                    most: bound(123.0, false),
                    ..Range::default()
                },
                vec!["6", "99", "123"],
                vec!["5", "124", "-6"],
            ),
            (
                Range { least: bound(0.5, false), most: bound(10.0, false), ..Range::default() },
                vec!["0.5", "0.75", "1", "9.99", "10", "10.0"],
                vec!["0.4", "0", "10.1"],
            ),
            (
                Range { least: bound(0.0, true), most: bound(1.0, true), ..Range::default() },
                vec!["0.1", "0.999"],
                vec!["0", "1", "0.0"],
            ),
            (
                Range { least: bound(-1.5, false), most: bound(-0.25, false), ..Range::default() },
                vec!["-1.5", "-1", "-0.25"],
                vec!["-0.2", "0", "-1.6", "1"],
            ),
            (
                Range {
                    integer: true,
                    least: bound(-5.0, false),
                    most: bound(5.0, false),
                    ..Range::default()
                },
                vec!["-5", "0", "5"],
                vec!["-6", "6"],
            ),
            (
                Range { multiples: vec![0.01], least: bound(0.0, false), ..Range::default() },
                vec!["1.25", "3"],
                vec!["1.255"],
            ),
            (Range { multiples: vec![5.0], ..Range::default() }, vec!["15", "-10", "0"], vec!["7", "2.5"]),
            (
                Range { multiples: vec![7.0], least: bound(10.0, false), ..Range::default() },
                vec!["14", "21"],
                vec!["7", "15"],
            ),
            (Range { multiples: vec![0.5], ..Range::default() }, vec!["0.5", "2"], vec!["0.25"]),
            (Range { multiples: vec![100.0], ..Range::default() }, vec!["100", "0", "2300"], vec!["10"]),
        ];
        for (range, good, bad) in cases {
            let rx = in_range(&range).unwrap();
            for text in good {
                assert!(rx.matches(text), "{text} {range:?} {rx:?}");
            }
            for text in bad {
                assert!(!rx.matches(text), "{text} {range:?}");
            }
        }
        assert!(
            in_range(&Range { least: bound(2.0, false), most: bound(1.0, false), ..Range::default() })
                .is_none()
        );
    }
}
