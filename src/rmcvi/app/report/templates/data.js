"use strict";
// What the page holds: `meta` (names and curves) and `data` (arrays by name, one number per row).
const meta = JSON.parse(document.getElementById("meta").textContent);
const data = {};

async function inflate() {
  const text = atob(document.getElementById("data").textContent.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  for (const [name, [kind, start, length]] of Object.entries(meta.index)) {
    if (kind === "double") data[name] = new Float64Array(buffer.slice(start, start + 8 * length));
    else if (kind === "share") data[name] = shares(new Uint8Array(buffer, start, length));
    else data[name] = numbers(buffer, start, length);
  }
}

function shares(codes) {
  const values = new Float32Array(codes.length);
  for (let i = 0; i < codes.length; i++) values[i] = codes[i] === 255 ? NaN : codes[i] / 254;
  return values;
}

// The inverse of `encode` in pack.py: blocks of 256 numbers, differences of two-byte codes.
function numbers(buffer, start, length) {
  const blocks = Math.ceil(length / 256);
  const low = new Float64Array(buffer.slice(start, start + 8 * blocks));
  const step = new Float64Array(buffer.slice(start + 8 * blocks, start + 16 * blocks));
  const high = new Uint8Array(buffer, start + 16 * blocks, length);
  const rest = new Uint8Array(buffer, start + 16 * blocks + length, length);
  const values = new Float64Array(length);
  let code = 0;
  for (let i = 0; i < length; i++) {
    code = (code + 256 * high[i] + rest[i]) & 65535;
    values[i] = code === 65535 ? NaN : low[i >> 8] + step[i >> 8] * code;
  }
  return values;
}
