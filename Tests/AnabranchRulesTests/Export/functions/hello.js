exports = function () {};
