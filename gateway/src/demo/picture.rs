//! Paints the sample pictures: ridges behind water, under a low sun. The same each time.

use image_webp::{ColorType as WebpColour, WebPEncoder};
use jpeg_encoder::{ColorType as JpegColour, Encoder as JpegEncoder};

/// The top of the water, from the top of the picture.
const SHORE: f32 = 0.66;

/// The number of ridges behind each other.
const RIDGES: u8 = 5;

type Colour = [f32; 3];

/// One time of day over the same sea. Colours are red, green, blue from 0 to 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene {
    seed: u32,
    zenith: Colour,
    horizon: Colour,
    sun: Colour,
    /// The position from left and top, in heights of the picture.
    sun_at: [f32; 2],
    near: Colour,
    stars: bool,
}

pub(super) const DAWN: Scene = Scene {
    seed: 3,
    zenith: [0.36, 0.52, 0.76],
    horizon: [0.99, 0.84, 0.70],
    sun: [1.0, 0.93, 0.72],
    sun_at: [0.48, 0.40],
    near: [0.16, 0.24, 0.30],
    stars: false,
};

pub(super) const DUSK: Scene = Scene {
    seed: 11,
    zenith: [0.20, 0.18, 0.42],
    horizon: [0.96, 0.52, 0.32],
    sun: [1.0, 0.78, 0.45],
    sun_at: [1.05, 0.33],
    near: [0.10, 0.09, 0.17],
    stars: false,
};

pub(super) const NIGHT: Scene = Scene {
    seed: 29,
    zenith: [0.02, 0.04, 0.12],
    horizon: [0.16, 0.26, 0.42],
    sun: [0.92, 0.95, 1.0],
    sun_at: [1.15, 0.20],
    near: [0.02, 0.04, 0.07],
    stars: true,
};

/// A picture of 8-bit red, green, blue.
pub(super) struct Picture {
    width: u16,
    height: u16,
    rgb: Vec<u8>,
}

impl Picture {
    pub(super) fn paint(scene: &Scene, width: u16, height: u16) -> Self {
        let view = View::new(scene, width, height);
        let mut rgb = Vec::with_capacity(3 * usize::from(width) * usize::from(height));
        for row in 0..height {
            for column in 0..width {
                // Both in heights of the picture, so that nothing is stretched.
                let x = f32::from(column) / f32::from(height);
                let y = f32::from(row) / f32::from(height);
                let grain = (hash(u32::from(column), u32::from(row), scene.seed) - 0.5) / 255.0;
                rgb.extend(view.colour(x, y).map(|part| to_byte(part + grain)));
            }
        }
        Self { width, height, rgb }
    }

    /// Encodes it as baseline JPEG.
    pub(super) fn to_jpeg(&self, quality: u8) -> Vec<u8> {
        let mut file = Vec::new();
        JpegEncoder::new(&mut file, quality)
            .encode(&self.rgb, self.width, self.height, JpegColour::Rgb)
            .expect("the buffer has the size that width and height say");
        file
    }

    /// Encodes it as lossless WebP.
    pub(super) fn to_webp(&self) -> Vec<u8> {
        let mut file = Vec::new();
        let (width, height) = (u32::from(self.width), u32::from(self.height));
        WebPEncoder::new(&mut file)
            .encode(&self.rgb, width, height, WebpColour::Rgb8)
            .expect("the buffer has the size that width and height say");
        file
    }
}

/// A scene, and the depth of each ridge's crest in each column of the picture.
struct View<'s> {
    scene: &'s Scene,
    height: f32,
    crests: Vec<[f32; RIDGES as usize]>,
}

impl<'s> View<'s> {
    fn new(scene: &'s Scene, width: u16, height: u16) -> Self {
        let height = f32::from(height);
        let crests = (0..width)
            .map(|column| scene.crests(f32::from(column) / height))
            .collect();
        Self {
            scene,
            height,
            crests,
        }
    }

    fn colour(&self, x: f32, y: f32) -> Colour {
        if y < SHORE {
            return self.land_and_sky(x, y);
        }
        // Water mirrors the part above it, shaken by waves that grow towards the viewer.
        let depth = (y - SHORE) / (1.0 - SHORE);
        let wave = noise(
            x * (30.0 - 20.0 * depth),
            y * 260.0 / (1.0 + 2.0 * depth),
            self.scene.seed,
        );
        let mirrored = SHORE - (y - SHORE) * 1.6 + (wave - 0.5) * 0.10 * (0.2 + depth);
        let above = self.land_and_sky(x + (wave - 0.5) * 0.05 * depth, mirrored.clamp(0.0, SHORE));
        let glint = (wave - 0.62).max(0.0) * glow(x - self.scene.sun_at[0], depth * 0.3, 14.0);
        add(
            blend(above, self.scene.near, 0.18 + 0.35 * depth),
            self.scene.sun,
            1.4 * glint,
        )
    }

    fn land_and_sky(&self, x: f32, y: f32) -> Colour {
        let mut colour = self.scene.sky(x, y);
        let column = ((x * self.height) as usize).min(self.crests.len() - 1);
        for (ridge, top) in (0..RIDGES).zip(self.crests[column]) {
            let near = f32::from(ridge) / f32::from(RIDGES - 1);
            // Crests are smooth: a pixel may be half rock, half air.
            let rock_here = ((y - top) * self.height + 0.5).clamp(0.0, 1.0);
            if rock_here > 0.0 {
                // Mist gathers in the valleys, and more of it the farther the ridge.
                let mist = ((y - top) * 5.0).clamp(0.0, 1.0) * 0.35 * (1.0 - near);
                let rock = blend(self.scene.horizon, self.scene.near, 0.30 + 0.70 * near);
                colour = blend(colour, blend(rock, self.scene.horizon, mist), rock_here);
            }
        }
        colour
    }
}

impl Scene {
    fn crests(&self, x: f32) -> [f32; RIDGES as usize] {
        let mut ridge = 0;
        [(); RIDGES as usize].map(|()| {
            ridge += 1;
            self.crest(x, ridge - 1)
        })
    }

    fn crest(&self, x: f32, ridge: u8) -> f32 {
        let near = f32::from(ridge) / f32::from(RIDGES - 1);
        let seed = self.seed.wrapping_mul(31).wrapping_add(u32::from(ridge));
        let (mut height, mut size, mut wide) = (0.0, 0.5, 1.3 + 1.2 * near);
        for _ in 0..5 {
            height += size * noise(x * wide, 0.0, seed);
            size *= 0.48;
            wide *= 2.1;
        }
        SHORE - 0.02 - (0.40 - 0.30 * near) * height + 0.06 * near
    }

    fn sky(&self, x: f32, y: f32) -> Colour {
        let (dx, dy) = (x - self.sun_at[0], y - self.sun_at[1]);
        let mut colour = blend(self.zenith, self.horizon, (y / SHORE).powf(1.3));
        let cloud = noise(x * 2.2, y * 11.0, self.seed) * noise(x * 7.0, y * 30.0, self.seed + 1);
        colour = add(colour, self.horizon, 0.5 * (cloud - 0.25).max(0.0));
        colour = add(colour, self.sun, 0.42 * glow(dx, dy, 9.0));
        if self.stars && hash((x * 700.0) as u32, (y * 700.0) as u32, self.seed) > 0.9985 {
            colour = add(colour, [1.0; 3], 0.6 * (1.0 - y));
        }
        let disc = ((0.052 - dx.hypot(dy)) * 300.0).clamp(0.0, 1.0);
        blend(colour, self.sun, disc)
    }
}

/// Returns light that fades with the distance from its source.
fn glow(dx: f32, dy: f32, steep: f32) -> f32 {
    (-steep * (dx * dx + dy * dy)).exp()
}

fn blend(from: Colour, to: Colour, share: f32) -> Colour {
    std::array::from_fn(|i| from[i] + (to[i] - from[i]) * share)
}

fn add(to: Colour, light: Colour, strength: f32) -> Colour {
    std::array::from_fn(|i| to[i] + light[i] * strength)
}

fn to_byte(part: f32) -> u8 {
    (part.clamp(0.0, 1.0) * 255.0).round() as u8
}

/// Returns smooth noise from 0 to 1, one hill or dale a unit.
fn noise(x: f32, y: f32, seed: u32) -> f32 {
    let (left, top) = (x.floor(), y.floor());
    let ease = |t: f32| t * t * (3.0 - 2.0 * t);
    let (across, down) = (ease(x - left), ease(y - top));
    let at = |dx: i32, dy: i32| hash((left as i32 + dx) as u32, (top as i32 + dy) as u32, seed);
    let upper = at(0, 0) + (at(1, 0) - at(0, 0)) * across;
    let lower = at(0, 1) + (at(1, 1) - at(0, 1)) * across;
    upper + (lower - upper) * down
}

/// Returns a number from 0 to 1 that only looks random.
fn hash(x: u32, y: u32, seed: u32) -> f32 {
    let mut mixed =
        x.wrapping_mul(0x9E37_79B1) ^ y.wrapping_mul(0x85EB_CA77) ^ seed.wrapping_mul(0xC2B2_AE3D);
    mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x2C1B_3C6D);
    mixed = (mixed ^ (mixed >> 12)).wrapping_mul(0x297A_2D39);
    mixed ^= mixed >> 15;
    // An f32 holds exactly 24 bits.
    (mixed >> 8) as f32 / (1 << 24) as f32
}
