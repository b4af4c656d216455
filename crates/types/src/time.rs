//! Timestamps in RFC 3339.

/// Formats milliseconds since 1970 as RFC 3339 in UTC. Negative values become 1970. Days are counted in eras
/// of 400 years, after which the calendar repeats.
pub fn timestamp(milliseconds: i64) -> String {
    let milliseconds = u64::try_from(milliseconds).unwrap_or_default();
    let (seconds, milliseconds) = (milliseconds / 1_000, milliseconds % 1_000);
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

/// Parses RFC 3339, such as `2024-02-29T12:34:56.5Z` or `2024-02-29T13:34:56+01:00`, as milliseconds since 1970. Returns
/// `None` for other texts and for times before 1970.
pub fn parse_timestamp(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let [year, month, day] = numbers(date.split('-'))?;
    let at = time.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = time.split_at(at);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let [hour, minute, second] = numbers(clock.split(':'))?;
    let is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let days_of_month = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let is_valid = date.len() == 10
        && clock.len() == 8
        && (1..=12).contains(&month)
        && (1..=days_of_month).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60
        && !fraction.is_empty()
        && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !is_valid {
        return None;
    }
    let millis: i64 = format!("{fraction:0<3}")[..3].parse().ok()?;
    let shifted_year = year - i64::from(month <= 2);
    let (era, year_of_era) = (shifted_year.div_euclid(400), shifted_year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - offset(zone)?;
    let milliseconds = seconds * 1_000 + millis;
    (milliseconds >= 0).then_some(milliseconds)
}

/// Returns the seconds that a zone such as `Z` or `+01:00` is ahead of UTC.
fn offset(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let [hours, minutes] = numbers(zone.get(1..)?.split(':'))?;
    let seconds = hours * 3_600 + minutes * 60;
    let is_valid = zone.len() == 6 && hours < 24 && minutes < 60;
    is_valid.then_some(if zone.starts_with('-') { -seconds } else { seconds })
}

/// Parses as many numbers as the array has places; `None` if there are more or fewer, or one has other characters than
/// digits.
fn numbers<'t, const N: usize>(parts: impl Iterator<Item = &'t str>) -> Option<[i64; N]> {
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?;
    parts.map(digits).collect::<Option<Vec<i64>>>()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::{parse_timestamp, timestamp};

    #[test]
    fn timestamp_is_formatted_as_rfc_3339() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(-5), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(951_782_400_007), "2000-02-29T00:00:00.007Z");
        assert_eq!(timestamp(1_709_210_096_500), "2024-02-29T12:34:56.500Z");
        assert_eq!(timestamp(4_102_444_799_999), "2099-12-31T23:59:59.999Z");
    }

    #[test]
    fn formatted_timestamp_is_parsed_again() {
        for milliseconds in [0, 7, 951_782_400_007, 1_709_210_096_500, 4_102_444_799_999] {
            assert_eq!(parse_timestamp(&timestamp(milliseconds)), Some(milliseconds));
        }
        assert_eq!(parse_timestamp("2024-02-29T13:34:56.5+01:00"), Some(1_709_210_096_500));
        assert_eq!(parse_timestamp("2000-02-28t19:00:00-05:00"), Some(951_782_400_000));
        for invalid in [
            "",
            "2024-02-29",
            "2023-02-29T00:00:00Z",
            "2024-13-01T00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:00",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00+1:00",
            "+024-01-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2024-01-01T00:00:00Zx",
            "２０２４-01-01T00:00:00Z",
        ] {
            assert_eq!(parse_timestamp(invalid), None, "{invalid}");
        }
    }
}
