// Node.js loads this before the cdk CLI, which then does the same in less time. Two things cost most of it.
//
// Large modules: NODE_COMPILE_CACHE keeps what is compiled when a module is loaded. The cdk CLI is one module of 16 MB, and a third of
// its start goes to functions that are compiled when they are called. Here a module's cache is written when the process
// ends, so those functions are in it. V8 rejects a cache of another version or other flags.
//
// Large buffers: the CLI words each API call for its log. JSON.stringify makes an array of a buffer's bytes, 60 MB in a
// deployment, of which the CLI writes the length. An array of that length without its bytes gives the same text.
"use strict";

const { createHash } = require("node:crypto");
const fs = require("node:fs");
const Module = require("node:module");
const path = require("node:path");
const vm = require("node:vm");

const LARGE = 1 << 20;
const folder = process.env.NODE_COMPILE_CACHE;
const compile = Module.prototype._compile;

Module.prototype._compile = function (content, filename, ...rest) {
  if (!folder || rest[0] === "module" || content.length < LARGE) {
    return compile.call(this, content, filename, ...rest);
  }
  const file = path.join(folder, `${createHash("sha256").update(content).digest("hex")}-${process.version}`);
  const kept = fs.existsSync(file) ? fs.readFileSync(file) : undefined;
  const script = new vm.Script(Module.wrap(content), {
    filename,
    cachedData: kept,
    importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  if (!kept || script.cachedDataRejected) {
    process.once("exit", () => {
      try {
        fs.writeFileSync(`${file}.${process.pid}`, script.createCachedData());
        fs.renameSync(`${file}.${process.pid}`, file);
      } catch {
        // a folder that cannot be written costs time, nothing else
      }
    });
  }
  const required = Module.createRequire(filename);
  return script.runInThisContext().call(this.exports, this.exports, required, this, filename, path.dirname(filename));
};

const toJSON = Buffer.prototype.toJSON;
Buffer.prototype.toJSON = function () {
  return this.length < LARGE ? toJSON.call(this) : { type: "Buffer", data: new Array(this.length) };
};
