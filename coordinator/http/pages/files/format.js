// Figures as people read them.

export function bytes(value) {
  if (!(value > 0)) return '0 B';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const at = Math.min(Math.floor(Math.log2(value) / 10), units.length - 1);
  const scaled = value / 1024 ** at;
  return `${at > 0 && scaled < 100 ? scaled.toFixed(1) : Math.round(scaled)}\u00a0${units[at]}`;
}

// The rate of a link, in bits as network cards are sold.
export function linkRate(bytesPerSecond) {
  const bits = bytesPerSecond * 8;
  if (bits >= 1e9) return `${(bits / 1e9).toFixed(bits >= 1e10 ? 0 : 1)} Gbit/s`;
  return `${Math.max(1, Math.round(bits / 1e6))} Mbit/s`;
}

export function seconds(value) {
  if (value < 0.001) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  if (value < 3600) return `${Math.round(value / 60)} min`;
  return `${(value / 3600).toFixed(1)} h`;
}

// What the server says without a beginning of its own, as a sentence.
export function sentence(text) { return text.charAt(0).toUpperCase() + text.slice(1); }

export function rate(value) { return value >= 100 ? String(Math.round(value)) : value.toFixed(1); }

export function count(value, one, many = `${one}s`) {
  return `${value.toLocaleString('en')} ${value === 1 ? one : many}`;
}

// Layers [begin, end) as the commands write them.
export function layers([begin, end]) {
  if (end <= begin) return 'no layers';
  return end === begin + 1 ? `layer ${begin}` : `layers ${begin}-${end - 1}`;
}

export function when(milliseconds) {
  return new Date(milliseconds).toLocaleString([], {dateStyle: 'medium', timeStyle: 'short'});
}
