// The parts that the scripts for Node.js share.

const assert = require("node:assert");

exports.same = (found, wanted) => assert.deepStrictEqual(found, wanted);

// Loads the modules; exits with 77 if one of them is missing.
exports.missing = (tool, ...names) => {
  try {
    return names.map((name) => require(name));
  } catch (error) {
    if (error.code !== "MODULE_NOT_FOUND") throw error;
    console.log(`${tool} is not installed (npm install ${names.join(" ")})`);
    process.exit(77);
  }
};

exports.fails = async (promise) => {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("no error where one was due");
};

// Reports what ran, or what failed, with the statement if the tool has it.
exports.scripted = (main) =>
  main().then(
    (said) => { console.log(said); process.exit(0); },
    (error) => {
      console.log(error.stack || error);
      for (const name of ["code", "detail", "hint", "sql", "query"]) if (error[name]) console.log(`${name}: ${error[name]}`);
      process.exit(1);
    });
