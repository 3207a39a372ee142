// Says whether the plugin beside it fits an OpenCode: run by that program's own JavaScript runtime (BUN_BE_BUN=1), prints
// one line of JSON, {"problems": []} when it fits. OpenCode ignores hooks that it does not know without a word; so each
// hook's name is looked up in the program, which holds its own source as text.

import { closeSync, openSync, readSync } from "node:fs"
import { RollerHeaders } from "./roller-headers.js"

const PIECE = 4 * 1024 * 1024
const OVERLAP = 256 // more than the longest name and its quotes

function missingIn(program, names) {
  const missing = new Set(names)
  const piece = Buffer.alloc(OVERLAP + PIECE)
  const file = openSync(program, "r")
  try {
    let kept = 0
    for (let read; missing.size && (read = readSync(file, piece, kept, PIECE, null)) > 0; ) {
      const text = piece.subarray(0, kept + read)
      for (const name of missing)
        if (["\"", "'", "`"].some((quote) => text.includes(quote + name + quote))) missing.delete(name)
      kept = Math.min(OVERLAP, text.length)
      text.copy(piece, 0, text.length - kept)
    }
  } finally {
    closeSync(file)
  }
  return missing
}

const names = Object.keys(await RollerHeaders())
console.log(JSON.stringify({ problems: [...missingIn(process.execPath, names)].map((name) => `no hook ${name}`) }))
