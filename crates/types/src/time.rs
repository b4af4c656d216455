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

#[cfg(test)]
mod tests {
    use super::timestamp;

    #[test]
    fn timestamp_is_formatted_as_rfc_3339() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(-5), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(951_782_400_007), "2000-02-29T00:00:00.007Z");
        assert_eq!(timestamp(1_709_210_096_500), "2024-02-29T12:34:56.500Z");
        assert_eq!(timestamp(4_102_444_799_999), "2099-12-31T23:59:59.999Z");
    }
}
