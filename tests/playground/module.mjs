// The playground's module in node: the same text that the page loads, out of the same folder.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createRequire } from 'node:module';
import { gunzipSync } from 'node:zlib';

export const kSkipped = 77; // As CTest's SKIP_RETURN_CODE has it.

export const skip = (why) => {
  console.log(`skipped: ${why}`);
  process.exit(kSkipped);
};

const evaluated = (text, name, names, values) => new Function(...names, `${text}\nreturn ${name};`)(...values);

// The size of each file of the folder, compressed as a server would send it, is what people load.
export const module_of = (folder) => {
  const file = join(folder, 'module.js');
  if (!existsSync(file)) skip(`${file} is not there: ./bootstrap playground builds it, where emscripten is`);
  return evaluated(readFileSync(file, 'utf8'), 'kModule', [], []);
};

// A function from a request to its reply, both objects; `text` gives the reply as it came.
export const open_core = async (folder) => {
  const packed = module_of(folder);
  const make = evaluated(packed.glue, 'rehearse_module', ['require', '__filename', '__dirname', 'process'], [createRequire(import.meta.url), '', '', process]);
  const core = await make({ wasmBinary: gunzipSync(Buffer.from(packed.wasm, 'base64')) });
  const text = (request) => {
    const asked = JSON.stringify(request),
      size = core.lengthBytesUTF8(asked) + 1,
      at = core._malloc(size);
    core.stringToUTF8(asked, at, size);
    const reply = core.UTF8ToString(core._rehearse_answer(at));
    core._free(at);
    return reply;
  };
  return { text, ask: (request) => JSON.parse(text(request)) };
};
