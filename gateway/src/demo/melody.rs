//! Plays the sample recording: three minutes of a slow waltz on plucked strings, as a WAV file.
//!
//! WAV, because every browser plays it, any byte of it can be sought to by arithmetic, and its
//! header of 44 bytes is easy to write.

use std::f32::consts::TAU;

/// Samples a second.
const RATE: u32 = 22_050;

/// Length of an eighth note, in samples: 0.3 s, so that a bar takes 1.8 s.
const EIGHTH: usize = RATE as usize * 3 / 10;

/// Eighth notes in a bar of three four.
const BAR: usize = 6;

/// Bars played: three minutes.
const BARS: usize = 100;

/// Lowest note and steps of each chord, in semitones above A at 110 Hz; one chord a bar.
const CHORDS: [(u8, [u8; 3]); 8] = [
    (0, [12, 15, 19]),  // A minor
    (8, [12, 15, 20]),  // F
    (3, [15, 19, 22]),  // C
    (10, [14, 17, 22]), // G
    (5, [12, 17, 20]),  // D minor
    (0, [12, 15, 19]),  // A minor
    (7, [14, 16, 19]),  // E
    (0, [12, 15, 19]),  // A minor
];

/// The tune over the chords, one row a bar: semitones above A at 220 Hz, 0 for a rest.
const TUNE: [[u8; 3]; 16] = [
    [19, 0, 15],
    [20, 19, 15],
    [15, 0, 22],
    [22, 0, 0],
    [17, 20, 24],
    [24, 22, 19],
    [20, 0, 16],
    [12, 0, 0],
    [24, 0, 19],
    [20, 0, 24],
    [27, 26, 22],
    [22, 0, 17],
    [20, 17, 14],
    [15, 0, 19],
    [16, 14, 11],
    [12, 0, 0],
];

/// Returns the whole file.
pub(super) fn wav() -> Vec<u8> {
    let mut sound = vec![0.0; BARS * BAR * EIGHTH];
    for bar in 0..BARS {
        play_bar(&mut sound, bar);
    }
    echo(&mut sound);
    fade(&mut sound);
    file(&sound)
}

fn play_bar(sound: &mut [f32], bar: usize) {
    let at = |eighth: usize| (bar * BAR + eighth) * EIGHTH;
    let (bass, steps) = CHORDS[bar % CHORDS.len()];
    pluck(sound, at(0), 110.0, bass, 0.30);
    for (i, step) in [0, 1, 2, 1, 2].into_iter().enumerate() {
        pluck(sound, at(i + 1), 110.0, steps[step], 0.12);
    }
    // The tune comes in after the chords went round once, and leaves before the last round.
    if (CHORDS.len()..BARS - CHORDS.len()).contains(&bar) {
        for (beat, note) in TUNE[bar % TUNE.len()].into_iter().enumerate() {
            if note != 0 {
                pluck(sound, at(2 * beat), 220.0, note, 0.22);
            }
        }
    }
}

/// Adds a string struck at `start`: overtones, of which the higher are fainter and die sooner. Each
/// is a damped oscillator, y'' = 2 r cos(w) y' - r² y.
fn pluck(sound: &mut [f32], start: usize, base: f32, semitones: u8, loudness: f32) {
    let pitch = base * (f32::from(semitones) / 12.0).exp2();
    let end = sound.len().min(start + 9 * EIGHTH);
    for overtone in 1..=5_u8 {
        let n = f32::from(overtone);
        let step = TAU * pitch * n / RATE as f32;
        let damping = (-(1.2 + 0.9 * n) / RATE as f32).exp();
        let (pull, hold) = (2.0 * damping * step.cos(), damping * damping);
        let (mut before, mut now) = (0.0, loudness / (n * n.sqrt()) * step.sin());
        for sample in &mut sound[start..end] {
            *sample += before;
            (before, now) = (now, pull * now - hold * before);
        }
    }
}

/// Adds the echo of a room.
fn echo(sound: &mut [f32]) {
    for (delay, share) in [
        (RATE as usize * 29 / 100, 0.22),
        (RATE as usize * 47 / 100, 0.14),
    ] {
        for i in delay..sound.len() {
            sound[i] += share * sound[i - delay];
        }
    }
}

/// Fades the last five seconds out.
fn fade(sound: &mut [f32]) {
    let length = 5 * RATE as usize;
    for (i, sample) in sound.iter_mut().rev().take(length).enumerate() {
        *sample *= i as f32 / length as f32;
    }
}

/// Encodes RIFF WAVE, PCM of 16 bits, one channel (Multimedia Programming Interface 1.0, chapter
/// 3).
fn file(sound: &[f32]) -> Vec<u8> {
    let loudest = sound
        .iter()
        .fold(f32::MIN_POSITIVE, |peak, s| peak.max(s.abs()));
    let scale = 0.9 * f32::from(i16::MAX) / loudest;
    let size = u32::try_from(2 * sound.len()).expect("a few minutes are less than 4 GiB");
    let mut file = Vec::with_capacity(44 + 2 * sound.len());
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&(36 + size).to_le_bytes());
    file.extend_from_slice(b"WAVEfmt ");
    file.extend_from_slice(&16_u32.to_le_bytes());
    file.extend_from_slice(&1_u16.to_le_bytes()); // PCM
    file.extend_from_slice(&1_u16.to_le_bytes()); // channels
    file.extend_from_slice(&RATE.to_le_bytes());
    file.extend_from_slice(&(2 * RATE).to_le_bytes()); // bytes a second
    file.extend_from_slice(&2_u16.to_le_bytes()); // bytes a sample
    file.extend_from_slice(&16_u16.to_le_bytes()); // bits a sample
    file.extend_from_slice(b"data");
    file.extend_from_slice(&size.to_le_bytes());
    for sample in sound {
        file.extend_from_slice(&((sample * scale) as i16).to_le_bytes());
    }
    file
}
