/** Colour maps of the failure panel: pure functions from values to colours. */

import type { Value } from "../protocol";

export type Rgb = [red: number, green: number, blue: number];
export type Palette = "values" | "difference" | "wrong";

/** Viridis (van der Walt and Smith, 2015) at five stops: monotone in lightness, suitable for colour blindness. */
const VIRIDIS: Rgb[] = [
  [68, 1, 84],
  [59, 82, 139],
  [33, 145, 140],
  [94, 201, 98],
  [253, 231, 37],
];
const FIRE: Rgb[] = [
  [24, 24, 32],
  [120, 28, 66],
  [214, 72, 50],
  [252, 165, 62],
  [252, 243, 170],
];
/** NaN and the infinities have colours that no scale contains. */
export const NAN: Rgb = [255, 0, 255];
export const POSITIVE_INFINITY: Rgb = [255, 255, 255];
export const NEGATIVE_INFINITY: Rgb = [0, 0, 0];

export interface Scale {
  low: number;
  high: number;
}

/** Return the range of the finite values. Expected and actual share one scale: equal colours are equal values. */
export function scaleOf(...grids: Value[][][]): Scale {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const grid of grids) {
    for (const value of grid.flat()) {
      if (typeof value === "number") {
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    }
  }
  return low <= high ? { low, high } : { low: 0, high: 0 };
}

export function colour(value: Value, scale: Scale, palette: Palette): Rgb {
  if (typeof value !== "number") {
    return value === "NaN" ? NAN : value === "Infinity" ? POSITIVE_INFINITY : NEGATIVE_INFINITY;
  }
  const stops = palette === "values" ? VIRIDIS : FIRE;
  const span = scale.high - scale.low;
  const share = span > 0 ? Math.min(1, Math.max(0, (value - scale.low) / span)) : 0;
  const position = share * (stops.length - 1);
  const index = Math.min(stops.length - 2, Math.floor(position));
  const [from, to] = [stops[index] as Rgb, stops[index + 1] as Rgb];
  return from.map((part, channel) => Math.round(part + (position - index) * ((to[channel] ?? 0) - part))) as Rgb;
}

/** Format a value with seven significant digits, which distinguish float32 values. */
export function format(value: Value): string {
  return typeof value === "number" ? `${Number(value.toPrecision(7))}` : value;
}
