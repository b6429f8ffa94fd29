// Build tool: the static folder out of its parts. `pack.mjs FOLDER --page FILE --module FILE --charts [FILE] --styles
// FILE... --scripts FILE...`. A page from disk may fetch nothing, so that the module is text of a script: compressed, as
// base64. What its pickers offer, and what it says of the first plan, is asked of the module here, once.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';

const [folder, ...words] = process.argv.slice(2);
const given = {};
let name;
for (const word of words)
  if (word.startsWith('--')) given[(name = word.slice(2))] = [];
  else given[name].push(word);

const text_of = (file) => readFileSync(file, 'utf8');
const joined = (files) => files.map((file) => text_of(file).trimEnd()).join('\n\n') + '\n';
const write = (file, text) => writeFileSync(join(folder, file), text);

const glue = given.module[0];
const wasmBinary = readFileSync(glue.replace(/\.js$/, '.wasm'));
const wasm = gzipSync(wasmBinary, { level: 9 }).toString('base64');

const kFirst = 'scenarios/gpt3_175b_a100_1024.json'; // What the page begins with.
const core = await createRequire(import.meta.url)(resolve(glue))({ wasmBinary });
const told = (question) => {
  const request = JSON.stringify(question),
    at = core._malloc(request.length + 1);
  core.stringToUTF8(request, at, request.length + 1);
  const reply = core.UTF8ToString(core._rehearse_answer(at));
  if (reply.startsWith('{"error"')) throw new Error(reply);
  return reply;
};
const first = `{ scenario: '${kFirst}', reply: ${told({ ask: 'estimate', scenario: kFirst, set: [] })} }`;

mkdirSync(folder, { recursive: true });
write('index.html', text_of(given.page[0]));
write('page.css', joined(given.styles));
write('charts.js', joined(given.charts));
write('page.js', `(() => {\n'use strict';\n${joined(given.scripts)}})();\n`);
write('module.js', `const kModule = {\nglue: ${JSON.stringify(text_of(glue))},\nwasm: '${wasm}',\nchoices: ${told({ ask: 'choices' })},\nfirst: ${first},\n};\n`);
