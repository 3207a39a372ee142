// Blocks of data in the page: base64 of deflated UTF-8. Chunks of pieces are opened when one of theirs is wanted.

const block = async (id) => {
  const node = byId(id);
  if (!node) throw new Error(`${id} is not in this page`);
  const text = atob(node.textContent);
  const packed = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) packed[at] = text.charCodeAt(at);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
};

const blockJson = async (id) => JSON.parse(new TextDecoder().decode(await block(id)));

class Pieces {
  static MOST_OPEN = 48;

  constructor(lengths) {
    this.lengths = lengths;
    this.firsts = [];
    this.total = 0;
    for (const chunk of lengths) {
      this.firsts.push(this.total);
      this.total += chunk.length;
    }
    this.opened = new Map();
    this.starts = new Map();
  }

  place(piece) {
    let low = 0;
    let high = this.firsts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.firsts[middle] <= piece) low = middle;
      else high = middle - 1;
    }
    return [low, piece - this.firsts[low]];
  }

  size(piece) {
    const [chunk, at] = this.place(piece);
    return this.lengths[chunk][at];
  }

  startsOf(chunk) {
    let starts = this.starts.get(chunk);
    if (!starts) {
      let sum = 0;
      starts = this.lengths[chunk].map((length) => (sum += length) - length);
      this.starts.set(chunk, starts);
    }
    return starts;
  }

  chunk(number_) {
    let data = this.opened.get(number_);
    if (!data) data = block(`c${number_}`);
    this.opened.delete(number_);
    this.opened.set(number_, data);
    if (this.opened.size > Pieces.MOST_OPEN) this.opened.delete(this.opened.keys().next().value);
    return data;
  }

  async text(piece) {
    const [chunk, at] = this.place(piece);
    const data = await this.chunk(chunk);
    const start = this.startsOf(chunk)[at];
    return new TextDecoder().decode(data.subarray(start, start + this.lengths[chunk][at]));
  }

  async value(piece) {
    return parseExactly(await this.text(piece));
  }
}
