//! Dates and times in PostgreSQL's binary form, as ISO 8601 text.

use std::fmt::Write as _;

const DAY_MICROS: i64 = 86_400_000_000;

/// Days since 2000-01-01.
pub(super) fn date(days: i32) -> String {
    match days {
        i32::MAX => "infinity".into(),
        i32::MIN => "-infinity".into(),
        days => civil(i64::from(days)),
    }
}

/// Microseconds since 2000-01-01T00:00:00; `zone` is what follows the time.
pub(super) fn timestamp(micros: i64, zone: &str) -> String {
    match micros {
        i64::MAX => "infinity".into(),
        i64::MIN => "-infinity".into(),
        micros => {
            let (days, rest) = (micros.div_euclid(DAY_MICROS), micros.rem_euclid(DAY_MICROS));
            format!("{}T{}{zone}", civil(days), time(rest))
        }
    }
}

/// Microseconds since midnight.
pub(super) fn time(micros: i64) -> String {
    let seconds = micros / 1_000_000;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{}", fraction(seconds % 60, micros % 1_000_000, 2))
}

/// Seconds west of Greenwich, as PostgreSQL counts them.
pub(super) fn offset(west: i32) -> String {
    let sign = if west > 0 { '-' } else { '+' };
    let west = west.unsigned_abs();
    let mut text = format!("{sign}{:02}:{:02}", west / 3600, west / 60 % 60);
    if !west.is_multiple_of(60) {
        let _ = write!(text, ":{:02}", west % 60);
    }
    text
}

/// An ISO 8601 duration such as `P1Y2M3DT4H5M6.5S`; each part has a sign of its own.
pub(super) fn interval(months: i32, days: i32, micros: i64) -> String {
    let mut text = String::from("P");
    let mut part = |count: i64, unit: char| {
        if count != 0 {
            let _ = write!(text, "{count}{unit}");
        }
    };
    part((months / 12).into(), 'Y');
    part((months % 12).into(), 'M');
    part(days.into(), 'D');
    if micros != 0 {
        text.push('T');
        let seconds = micros / 1_000_000;
        let mut part = |count: i64, unit: char| {
            if count != 0 {
                let _ = write!(text, "{count}{unit}");
            }
        };
        part(seconds / 3600, 'H');
        part(seconds / 60 % 60, 'M');
        if seconds % 60 != 0 || micros % 1_000_000 != 0 {
            let sign = if micros < 0 { "-" } else { "" };
            let (seconds, rest) = ((seconds % 60).abs(), (micros % 1_000_000).abs());
            let _ = write!(text, "{sign}{}S", fraction(seconds, rest, 1));
        }
    }
    if text == "P" {
        text.push_str("T0S");
    }
    text
}

fn fraction(seconds: i64, micros: i64, width: usize) -> String {
    let mut text = format!("{seconds:0width$}");
    if micros != 0 {
        let digits = format!("{micros:06}");
        let _ = write!(text, ".{}", digits.trim_end_matches('0'));
    }
    text
}

/// The proleptic Gregorian date `days` after 2000-01-01; the year before 1 is 0, then -1.
fn civil(days: i64) -> String {
    // Counted from 0000-03-01, so that the leap day is the last of its year.
    let days = days + 730_425;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let sign = if year < 0 { "-" } else { "" };
    format!("{sign}{:04}-{month:02}-{day:02}", year.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_civil() {
        for (days, text) in [
            (0, "2000-01-01"),
            (59, "2000-02-29"),
            (-1, "1999-12-31"),
            (9648, "2026-06-01"),
            (36_524, "2099-12-31"),
            (-730_119, "0001-01-01"),
            (-730_120, "0000-12-31"),
            (i32::MAX, "infinity"),
        ] {
            assert_eq!(date(days), text, "{days}");
        }
    }

    #[test]
    fn times_keep_their_microseconds() {
        assert_eq!(timestamp(-1, "Z"), "1999-12-31T23:59:59.999999Z");
        assert_eq!(timestamp(1_500_000, ""), "2000-01-01T00:00:01.5");
        assert_eq!(time(DAY_MICROS), "24:00:00");
        assert_eq!(offset(-5400), "+01:30");
        assert_eq!(offset(18_000), "-05:00");
    }

    #[test]
    fn intervals_are_iso_durations() {
        assert_eq!(interval(14, 3, 14_706_500_000), "P1Y2M3DT4H5M6.5S");
        assert_eq!(interval(0, 0, 0), "PT0S");
        assert_eq!(interval(0, -1, -500_000), "P-1DT-0.5S");
    }
}
